"""Turning the sanitizer on: for a block, or for a process through its settings."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import FlyDSLError, SourceLocation, UserError, UserValueError
from flydsl.plugins.manager import plugin_manager
from flydsl_emu.dispatch import LoadedKernel
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.observers import Observer, watching
from flydsl_emu.sanitizer.findings import Finding, SanitizerReport
from flydsl_emu.sanitizer.observer import LaunchChecks
from flydsl_emu.sanitizer.places import Findings
from flydsl_emu.sanitizer.static import check_program
from flydsl_emu.settings import SANITIZE, SANITIZE_ACTION

__all__ = [
    "CHECKS",
    "SanitizerError",
    "SanitizerWarning",
    "check_launch",
    "demanded",
    "sanitize",
]

CHECKS = ("wait", "race", "init", "oob", "barrier")
"""Names of the checks: missing waits, LDS races, undefined values, bounds, barriers."""

ACTIONS = ("raise", "warn", "collect")


class SanitizerError(UserError):
    """A launch has findings. Attribute `findings` holds them."""

    findings: tuple[Finding, ...] = ()


class SanitizerWarning(FlyDSLWarning):
    """A launch has findings and the sanitizer is told to warn."""


@dataclass(frozen=True, slots=True, eq=False)
class _Session:
    """One block of `sanitize`. The innermost one of a context makes the checks of all of them."""

    checks: frozenset[str]
    action: str
    report: SanitizerReport
    static: MutableMapping[LoadedKernel, list[Finding]]
    outer: _Session | None = None

    @property
    def wanted(self) -> frozenset[str]:
        return self.checks if self.outer is None else self.checks | self.outer.wanted

    def watch(
        self, kernel: LoadedKernel, geometry: Geometry, allocations: tuple[Allocation, ...]
    ) -> Observer | None:
        return self.observer(kernel, geometry, allocations) if _active.get() is self else None

    def observer(
        self, kernel: LoadedKernel, geometry: Geometry, allocations: tuple[Allocation, ...]
    ) -> Observer:
        return LaunchChecks(
            kernel,
            geometry,
            allocations,
            self.wanted,
            lambda findings, record: self._finish(kernel, findings, record),
        )

    def _finish(
        self, kernel: LoadedKernel, findings: Findings, record: LaunchRecord | None
    ) -> None:
        self._deliver([*self._static(kernel), *findings.found], record is not None)

    def _deliver(self, found: list[Finding], ran: bool) -> None:
        if self.outer is not None:
            self.outer._deliver(found, ran)
        mine = [f for f in found if f.check in self.checks]
        self.report.add(mine)
        if not mine or not ran:
            return
        if self.action == "raise":
            raise error_of(mine)
        if self.action == "warn":
            warnings.warn(str(SanitizerReport(mine)), SanitizerWarning, stacklevel=2)

    def _static(self, kernel: LoadedKernel) -> list[Finding]:
        if "wait" not in self.wanted:
            return []
        found = self.static.get(kernel)
        if found is None:
            found = check_program(kernel.program, kernel.code.source_line)
            self.static[kernel] = found
        return found


_active: ContextVar[_Session | None] = ContextVar("flydsl_emu_sanitizing", default=None)


def error_of(found: Collection[Finding]) -> SanitizerError:
    """Return the error that tells about findings; it points at the first one's source line."""
    first = next(iter(found))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    error = SanitizerError(
        f"kernel {first.kernel!r}: {first.message}{more}",
        code=first.code,
        value=_Text(f"{first.place}" + ("" if first.other is None else f"; {first.other}")),
        hint=first.hint,
        location=_location(first),
    )
    error.findings = tuple(found)
    return error


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _location(finding: Finding) -> SourceLocation | None:
    if finding.place.source is None:
        return None
    file, _, rest = finding.place.source.partition(":")
    line, _, column = rest.partition(":")
    if not line.isdigit():
        return None
    return SourceLocation(file, int(line), int(column) - 1 if column.isdigit() else -1)


def checks_from(names: str | Collection[str]) -> frozenset[str]:
    """Return the checks that a comma-separated text or a list names; ``all`` is all of them.

    Raises:
        UserValueError: There is no such check.
    """
    words = names.split(",") if isinstance(names, str) else names
    wanted = {w.strip() for w in words if w.strip()}
    if "all" in wanted:
        wanted = (wanted - {"all"}) | set(CHECKS)
    unknown = wanted - set(CHECKS)
    if unknown or not wanted:
        raise UserValueError(
            "no such check of the sanitizer",
            code="FLY-U739",
            value=", ".join(sorted(unknown)) or names,
            allowed=", ".join(("all", *CHECKS)),
        )
    return frozenset(wanted)


@contextmanager
def sanitize(
    checks: str | Collection[str] = "all", action: str = "raise"
) -> Iterator[SanitizerReport]:
    """Check every emulated launch of the block.

    Example::

        with flydsl_emu.sanitize(action="collect") as report:
            launch(x, y, n)
        print(report)

    Args:
        checks: ``"all"``, or names of `CHECKS` as a list or with commas between.
        action: ``"raise"`` a `SanitizerError` at the line of the launch, ``"warn"`` with a
            `SanitizerWarning`, or only ``"collect"``.

    Yields:
        The report, which grows with each launch.

    Raises:
        UserValueError: No such check or action.
    """
    if action not in ACTIONS:
        raise UserValueError(
            "no such action of the sanitizer",
            code="FLY-U739",
            value=action,
            allowed=", ".join(ACTIONS),
        )
    session = _Session(checks_from(checks), action, SanitizerReport([]), {}, _active.get())
    token = _active.set(session)
    try:
        with watching(session.watch):
            yield session.report
    finally:
        _active.reset(token)


def check_launch(
    kernel: LoadedKernel,
    geometry: Geometry,
    kernarg: bytes,
    allocations: Sequence[Allocation],
    checks: str | Collection[str] = "all",
) -> SanitizerReport:
    """Launch a kernel of a loaded code object and return what the checks find.

    A fault ends the launch quietly if there are findings.

    Args:
        kernel: The kernel.
        geometry: Shape of the launch.
        kernarg: Explicit arguments at their offsets.
        allocations: Host memory that the kernel may access.
        checks: As for `sanitize`.
    """
    session = _Session(checks_from(checks), "collect", SanitizerReport([]), {})
    observer = session.observer(kernel, geometry, tuple(allocations))
    record = None
    try:
        record = kernel.launch(geometry, kernarg, allocations, observer=observer)
    except FlyDSLError:
        observer.finished(None)
        if not session.report:
            raise
    else:
        observer.finished(record)
    return session.report


def demanded(
    kernel: LoadedKernel, geometry: Geometry, allocations: tuple[Allocation, ...]
) -> Observer | None:
    """Return the observer that ``FLYDSL_SANITIZE`` asks for; None inside `sanitize`."""
    names = SANITIZE.get()
    if not names or _active.get() is not None:
        return None
    # What the static checks say of a kernel holds for all its launches.
    cache = plugin_manager().cache("sanitizer")
    static = cache.setdefault("static", WeakKeyDictionary())
    session = _Session(checks_from(names), SANITIZE_ACTION.get(), SanitizerReport([]), static)
    return session.observer(kernel, geometry, allocations)
