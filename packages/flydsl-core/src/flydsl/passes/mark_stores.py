"""``fly-mark-stores``: find the kernel parameters that may be stored through.

Each ``gpu.launch_func`` gets ``fly.stores``, the numbers of the pointer operands (among those of
the kernel) through which its kernel may store, so that a runtime that checks memory allows no more
than that. A parameter of the launcher with the attribute ``fly.read_only`` (its name) is host
memory that must not change: a store through it is the user's error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import decode
from flydsl.errors import UserValueError
from flydsl.mlir import source_location
from flydsl.passes.rewriting import device_functions, functions, symbol

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["READ_ONLY", "STORES", "run"]

STORES = "fly.stores"
"""Attribute of a launch."""
READ_ONLY = "fly.read_only"
"""Attribute of a launcher's parameter."""

_MOVING = frozenset({"fly.add_offset", "fly.recast_iter", "fly.make_ptr", "arith.select"})
_ATOMIC = frozenset({"fly.atomic_rmw", "fly.atomic_cas"})


class _Reach:
    """Where the values derived from one pointer go.

    Attributes:
        store: The first operation found that stores through it.
        escapes: Whether something else than a load takes it, so that it may be stored through.
    """

    __slots__ = ("_pending", "_seen", "escapes", "store")

    def __init__(self, pointer: ir.Value) -> None:
        self.store: Any = None
        self.escapes = False
        self._seen: set[Any] = set()
        self._pending = [pointer]
        while self._pending:
            value = self._pending.pop()
            if value in self._seen:
                continue
            self._seen.add(value)
            for use in value.uses:
                self._use(use.owner.operation, use.operand_number)

    def _use(self, op: Any, number: int) -> None:
        name = op.name
        if name == "fly.ptr_load":
            return
        if name in _MOVING:
            self._pending.append(op.result)
        elif name in _ATOMIC or (name == "fly.ptr_store" and number == 1):
            self._found(op)
        elif name == "fly.copy_atom_call_ssa":
            if number != 1:  # the atom is operand 0, the source 1
                self._found(op)
        elif name.startswith("scf."):
            self._pending += list(_carried(op, number))
        else:
            self.escapes = True

    def _found(self, op: Any) -> None:
        if self.store is None:
            self.store = op


def _carried(op: Any, number: int) -> Iterator[Any]:
    """Yield what an operand of a structured control-flow operation becomes."""
    name = op.name
    if name == "scf.for":
        yield op.regions[0].blocks[0].arguments[number - 2]
        yield op.results[number - 3]
    elif name == "scf.while":
        yield op.regions[0].blocks[0].arguments[number]
    elif name == "scf.condition":
        loop = op.parent
        yield loop.regions[1].blocks[0].arguments[number - 1]
        yield loop.results[number - 1]
    elif name == "scf.yield":
        parent = op.parent
        if parent.name == "scf.while":
            yield parent.regions[0].blocks[0].arguments[number]
            return
        yield parent.results[number]
        if parent.name == "scf.for":
            yield parent.regions[0].blocks[0].arguments[number + 1]


def _origin(value: ir.Value) -> ir.Value:
    """Return the pointer that a launch operand was made from."""
    while getattr(value.owner, "name", "") in _MOVING and len(value.owner.operands):
        value = value.owner.operands[0]
    return value


def _read_only(entry: Any, launcher: Any) -> dict[Any, str]:
    """Return the parameters of a launcher that are read-only memory, with their names."""
    from flydsl.mlir import ir

    if "arg_attrs" not in launcher.attributes:
        return {}
    found = {}
    for argument, attributes in zip(
        entry.arguments, ir.ArrayAttr(launcher.attributes["arg_attrs"]), strict=True
    ):
        named = ir.DictAttr(attributes)
        if READ_ONLY in named:
            found[argument] = str(decode(named[READ_ONLY]))
    return found


def _mark(launch: Any, reaches: list[_Reach | None], read_only: dict[Any, str]) -> None:
    from flydsl.mlir import ir

    sizes = decode(launch.attributes["operandSegmentSizes"])
    # The kernel operands are the second-last segment; the last is the async object (the stream).
    last = len(launch.operands) - sizes[-1]
    operands = list(launch.operands)[last - sizes[-2] : last]
    stored = []
    for number, (operand, reach) in enumerate(zip(operands, reaches, strict=True)):
        if reach is None:
            continue
        name = read_only.get(_origin(operand))
        if reach.store is not None and name is not None:
            raise UserValueError(
                f"the kernel writes to {name!r}, and the array passed for it is read-only",
                code="FLY-U341",
                value=name,
                hint="pass a writable array, or a copy",
                location=source_location(reach.store.location),
            )
        if name is None and (reach.store is not None or reach.escapes):
            stored.append(number)
    launch.attributes[STORES] = ir.DenseI32ArrayAttr.get(stored)


def run(module: ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Mark the launches of `module`.

    Raises:
        UserValueError: A kernel stores through a parameter that is read-only memory.
    """
    from flydsl.mlir import ir

    with module.context, ir.Location.unknown():
        kernels = {}
        for op in device_functions(module):
            if not len(op.regions[0].blocks):
                continue
            arguments = op.regions[0].blocks[0].arguments
            kernels[symbol(op)] = [
                _Reach(x) if isinstance(ft.of(x.type), ft.PtrType) else None for x in arguments
            ]
        for function in list(functions(module)):
            launches: list[Any] = []

            def note(op: Any, found: list[Any] = launches) -> Any:
                if op.name == "gpu.launch_func":
                    found.append(op)
                return ir.WalkResult.ADVANCE

            if function.name == "func.func":
                function.walk(note)
                read_only = _read_only(function.regions[0].blocks[0], function)
                for launch in launches:
                    name = str(launch.attributes["kernel"]).rpartition("@")[2].strip('"')
                    if name in kernels:
                        _mark(launch, kernels[name], read_only)
