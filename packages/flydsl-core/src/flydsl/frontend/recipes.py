"""Recipes: the steps of a scan, written so that another process can take them quickly.

First everything is read: places with one owner, or of one kind, are read together, ordered by depth
so that their owners have been read before. Then everything is looked at: what is looked at in the
same way together. `flydsl.frontend.replay.Replay` does it.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from flydsl.frontend import scanning
from flydsl.frontend.eligible import is_user_module
from flydsl.frontend.scanning import Scan, Step
from flydsl.frontend.watching import Place

__all__ = ["PLAIN", "SPACES", "Read", "Recipe", "attributes_named", "recipe_of"]

PLAIN: Final = frozenset({int, float, complex, str, bool, type(None)})
"""What `marshal` writes so that equal bytes are equal values."""
SPACES: Final = frozenset({"global", "member", "module"})
"""Kinds of places in dictionaries, of which a read has one."""


class Read(NamedTuple):
    """Places to be read together.

    Attributes:
        kind: Of the places; see `flydsl.frontend.watching.Place`.
        owners: Number of the owner among what is read if the kind is one of `SPACES`; otherwise
            those of all owners.
        names: The places' names.
    """

    kind: str
    owners: int | tuple[int, ...]
    names: tuple[Any, ...]


class Recipe(NamedTuple):
    """A scan that can be repeated.

    Attributes:
        names: `Scan.names`.
        reads: The fields of `Read` one after another: many tuples would take time to make, and
            Python's garbage collector to go through. What they find is numbered in this order.
        looks: Kinds of steps, and the numbers of what is looked at so: ``"plain"`` are values of
            the types `PLAIN`.
        same: Numbers of what is looked at before, and the numbers by which it was.
        empty: Kinds, owners' numbers and names of places where nothing is.
        absent: For each module with functions: a step that found one of them, and what these name
            but the module does not have.
        modules: Steps that found modules, and the attributes of each that were found.
        digest: `flydsl.frontend.Dependencies.digest`.
        contents: Of each object that is no plain value, the hash of what it holds if that may
            change, or nothing.
        proof: Hash of everything that was looked at.
    """

    names: frozenset[str]
    reads: tuple[Any, ...]
    looks: tuple[tuple[str, tuple[int, ...]], ...]
    same: tuple[tuple[int, ...], tuple[int, ...]]
    empty: tuple[tuple[str, int, Any], ...]
    absent: tuple[tuple[int, frozenset[str]], ...]
    modules: tuple[tuple[int, frozenset[str]], ...]
    digest: str = ""
    contents: tuple[str, ...] = ()
    proof: bytes = b""


class _Writer:
    """Sorts the steps of a scan.

    Args:
        scan: A finished scan.
    """

    def __init__(self, scan: Scan) -> None:
        self._depths: list[int] = []
        self._owners: dict[int, int] = {}
        self._groups: dict[tuple[Any, ...], list[tuple[int, int, Any]]] = {}
        known: dict[tuple[int, str], int] = {}
        looks: dict[str, list[int]] = {}
        same: list[tuple[int, int]] = []
        empty: list[tuple[str, int, Any]] = []
        self.modules: dict[int, types.ModuleType] = {}
        for place, value, how in _different(scan.steps):
            owner = -1 if place.owner is None else self._owners[id(place.owner)]
            if how == "empty":
                empty.append((place.kind, owner, place.name))
                continue
            number = self._read(place, owner)
            self._owners.setdefault(id(value), number)
            before = known.setdefault((id(value), how), number)
            if how == "value":
                # That a value was seen before, a replay finds out itself.
                looks.setdefault("plain" if type(value) in PLAIN else how, []).append(number)
            elif before != number:
                same.append((number, before))
            elif how != "member":  # a class tells what it is, another step has its function
                looks.setdefault(how, []).append(number)
            if isinstance(value, types.ModuleType) and is_user_module(value.__name__):
                self.modules[id(value)] = value
        # Shallow ones first; those of one depth do not need each other.
        ordered = sorted(self._groups.items(), key=lambda group: group[0][0])
        order = [number for _, group in ordered for number, *_ in group]
        self._new = {number: place for place, number in enumerate(order)} | {-1: -1}
        self.reads = tuple(chain.from_iterable(self._written(key, group) for key, group in ordered))
        self.looks = tuple((how, self._renumbered(numbers)) for how, numbers in looks.items())
        self.same = self._renumbered(n for n, _ in same), self._renumbered(n for _, n in same)
        self.empty = tuple((kind, self._new[owner], name) for kind, owner, name in empty)

    def number_of(self, found: object) -> int:
        """Return the number by which an object was read first."""
        return self._new[self._owners[id(found)]]

    def _read(self, place: Place, owner: int) -> int:
        number = len(self._depths)
        depth = 1 + self._depths[owner] if owner >= 0 else 0
        self._depths.append(depth)
        space = place.owner if place.kind == "member" else place.space()
        key = depth, place.kind, id(space) if place.kind in SPACES else 0
        self._groups.setdefault(key, []).append((number, owner, place.name))
        return number

    def _written(self, key: tuple[Any, ...], group: list[tuple[int, int, Any]]) -> Read:
        _, kind, space = key
        owners = self._renumbered(owner for _, owner, _ in group)
        names = tuple(name for _, _, name in group)
        return Read(kind, owners[0] if space else owners, names)

    def _renumbered(self, numbers: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._new[number] for number in numbers)


def _different(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps that a replay has to take."""
    read = set[tuple[int, str]]()
    for step in steps:
        place, value, how = step
        if how == "generated" and type(value) is types.FunctionType:
            continue  # its class tells
        if place.kind == "global":
            # Other functions of the same module name it, too.
            where = id(place.space()), place.name
            if where in read:
                continue
            read.add(where)
        yield step


def attributes_named(module: Any, names: frozenset[str]) -> frozenset[str]:
    """Return which names a scan looks at in a module."""
    return frozenset(name for name in names & vars(module).keys() if not name.startswith("__"))


def recipe_of(scan: Scan, digest: str) -> Recipe:
    """Return how to repeat a scan, still without proof.

    Args:
        scan: A finished scan.
        digest: `flydsl.frontend.Dependencies.digest` of it.

    Raises:
        LookupError: It cannot be repeated.
    """
    written = _Writer(scan)
    absent: dict[int, tuple[int, frozenset[str]]] = {}
    for state in scan.functions.values():
        function: Any = state.function
        space = function.__globals__
        number, some = absent.get(id(space), (written.number_of(function), frozenset()))
        absent[id(space)] = number, some | (scanning.names_in(state.code) - space.keys())
    names = frozenset(scan.names)
    modules = written.modules.values()
    found = tuple((written.number_of(one), attributes_named(one, names)) for one in modules)
    return Recipe(
        names,
        written.reads,
        written.looks,
        written.same,
        written.empty,
        tuple(absent.values()),
        found,
        digest,
    )
