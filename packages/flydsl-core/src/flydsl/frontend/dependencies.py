"""What a traced function depends on: code, globals and closure values that it can reach.

Found by scanning bytecode, without tracing, so that a cache can be consulted first. The scan
over-approximates: every global whose name occurs in a function counts, and of a module every
attribute whose name occurs.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from flydsl.frontend.contents import code_digest, code_in, content_of
from flydsl.frontend.scanning import Dependency, Scan
from flydsl.frontend.watching import Check, FunctionState, Watch

if TYPE_CHECKING:
    from flydsl.plugins.payloads import ArgSpec

__all__ = [
    "Dependencies",
    "Dependency",
    "Reached",
    "classes_given",
    "code_digest",
    "collect_dependencies",
    "value_identity",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reached:
    """A function that the scan does not find, but the trace called: out of a table, say.

    Attributes:
        module, qualname: Where it was defined.
        digest: `Dependencies.digest` of it.
        portable: Whether that identifies the content in any process.
    """

    module: str
    qualname: str
    digest: str
    portable: bool

    def resolve(self) -> types.FunctionType | None:
        """Return this process's function at the same place, if it is the same."""
        value: object = sys.modules.get(self.module)
        for name in self.qualname.split("."):
            value = getattr(value, name, None)
        value = getattr(value, "function", value)
        if not self.portable or not isinstance(value, types.FunctionType):
            return None
        return value if collect_dependencies(value).digest == self.digest else None


class Dependencies:
    """The dependencies of one function.

    Attributes:
        entries: What the scan found.
        reached: Functions that only the trace found.
        given_digest: Of the classes that `given` added; None if they cannot be compared in another
            process.
    """

    __slots__ = ("_checks", "_digest", "_functions", "_watch", "entries", "given_digest", "reached")

    def __init__(
        self,
        entries: tuple[Dependency, ...],
        checks: tuple[Callable[[], Iterable[Check]], ...],
        functions: tuple[Callable[[], Iterable[FunctionState]], ...],
        reached: tuple[Reached, ...] = (),
        digest: str = "",
    ) -> None:
        self.entries = entries
        self.reached = reached
        # In parts, which a part may make when they are first needed.
        self._checks = checks
        self._functions = functions
        self._digest = digest
        self._watch: Watch | None = None
        self.given_digest: str | None = ""

    @classmethod
    def of(cls, scan: Scan) -> Dependencies:
        """Return what a scan has found."""
        scan.finish()
        checks, functions = scan.checks.copy, scan.functions.values
        return cls(tuple(scan.entries.values()), (checks,), (functions,))

    @property
    def portable(self) -> bool:
        """Whether `digest` identifies the content in any process."""
        return all(entry.portable for entry in self.entries)

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 over all entries, independent of their order."""
        if not self._digest:
            lines = sorted(f"{e.path}\0{e.kind}\0{e.digest}" for e in self.entries)
            self._digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return self._digest

    def unchanged(self) -> bool:
        """Return whether every place still holds what it held when this was collected."""
        if self._watch is None:
            self._watch = Watch(_all(self._checks), _all(self._functions))
        return self._watch.holds()

    def extended(self, functions: Iterable[types.FunctionType]) -> Dependencies:
        """Return these with the functions that only a trace has found, and what they depend on.

        `digest` stays that of the scan: a cache looks for it before there is a trace.
        """
        known = {id(state.function) for state in _all(self._functions)}
        found = [function for function in functions if id(function) not in known]
        if not found:
            return self
        scans = [collect_dependencies(function) for function in found]
        reached = tuple(
            Reached(function.__module__, function.__qualname__, scan.digest, scan.portable)
            for function, scan in zip(found, scans, strict=True)
        )
        checks = self._checks + tuple(part for scan in scans for part in scan._checks)
        states = self._functions + tuple(part for scan in scans for part in scan._functions)
        reached += self.reached
        return Dependencies(self.entries, checks, states, reached, self._digest)

    def given(self, values: Iterable[object], structs: Iterable[type] = ()) -> Dependencies:
        """Return these with the code that comes with arguments.

        `digest` stays the same; `given_digest` is that of the classes.

        Args:
            values: Compile-time arguments: their classes count, and those of what they hold.
            structs: Classes of struct arguments.
        """
        kinds = classes_given(values, structs)
        return self.with_classes(collect_classes(kinds)) if kinds else self

    def with_classes(self, classes: Dependencies) -> Dependencies:
        """Return these with the code of the classes of arguments."""
        checks = self._checks + classes._checks
        functions = self._functions + classes._functions
        found = Dependencies(self.entries, checks, functions, self.reached, self._digest)
        found.given_digest = classes.digest if classes.portable else None
        return found

    def given_by(self, specs: Iterable[ArgSpec]) -> Dependencies:
        """Return `given` for described arguments."""
        flat = list(_flat(specs))
        structs = [spec.static for spec in flat if spec.parts and isinstance(spec.static, type)]
        return self.given((spec.static for spec in flat if not spec.ir_type), structs)


def _all(parts: Iterable[Callable[[], Iterable[T]]]) -> Iterator[T]:
    for part in parts:
        yield from part()


def _flat(specs: Iterable[ArgSpec]) -> Iterator[ArgSpec]:
    for spec in specs:
        yield spec
        yield from _flat(part for _, part in spec.parts)


def collect_dependencies(function: types.FunctionType, instance: object = None) -> Dependencies:
    """Return what a function depends on, itself included.

    Args:
        function: The function.
        instance: The object that it is bound to as a method.
    """
    scan = Scan()
    scan.root(function)
    if instance is not None:
        scan.instance(instance)
    return Dependencies.of(scan)


def collect_classes(kinds: Iterable[type]) -> Dependencies:
    """Return the code of classes, and what it depends on."""
    scan = Scan()
    scan.classes(kinds)
    return Dependencies.of(scan)


def classes_given(values: Iterable[object], structs: Iterable[type] = ()) -> tuple[type, ...]:
    """Return the user's classes of compile-time arguments and of all they hold, and `structs`."""
    return (*code_in(tuple(values)), *structs)


def value_identity(value: object) -> str | None:
    """Return text that is equal in every process exactly for equal compile-time values.

    None for values whose content cannot be told. Functions count with all they depend on; of
    objects only the content does, and `Dependencies.given` finds the code of their classes.
    """
    if isinstance(value, tuple):
        parts = [value_identity(item) for item in value]
        return None if None in parts else f"({','.join(map(str, parts))})"
    if isinstance(value, types.FunctionType):
        dependencies = collect_dependencies(value)
        return dependencies.digest if dependencies.portable else None
    content = content_of(value)
    return content.digest if content.portable else None
