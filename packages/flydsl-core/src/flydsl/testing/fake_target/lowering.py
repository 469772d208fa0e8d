"""``convert-fly-to-toy``: each kernel becomes a body function and a loop that calls it.

The body takes the kernel's arguments and the indices of one thread; the loop takes the address of a
`FlyLaunch`, reads geometry and arguments from it and runs every thread of every block in order. It
keeps the kernel's name and lists its arguments in the attribute ``toy_args``. Pointers become
``!llvm.ptr`` wherever they occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flydsl import mlir
from flydsl.errors import TargetError
from flydsl.plugins.protocols import MlirModule, Target
from flydsl.runtime.abi import FlyLaunch

__all__ = ["argument_layout", "run"]

_INDICES = tuple(
    f"{kind}.{axis}"
    for kind in ("block_id", "thread_id", "grid_dim", "block_dim")
    for axis in "xyz"
)
_KEPT_DIALECTS = frozenset({"arith", "cf", "math", "scf", "vector"})
_FLY_POINTER = "!fly.ptr<"
_SCALAR_BYTES: Mapping[str, int] = {
    "!llvm.ptr": 8, "i64": 8, "f64": 8, "i32": 4, "f32": 4, "i16": 2, "f16": 2, "bf16": 2,
    "i8": 1, "i1": 1,
}  # fmt: skip


def run(module: MlirModule, target: Target | None) -> None:
    """Lower every kernel of `module` in place.

    Raises:
        TargetError: A kernel uses what the toy target lacks; at the user's line.
    """
    del target
    with module.context:
        for device in _named(module.body.operations, "gpu.module"):
            for kernel in _named(device.regions[0].blocks[0].operations, "gpu.func"):
                _lower(kernel)


def argument_layout(types: Sequence[str]) -> tuple[list[tuple[int, int]], int]:
    """Return (offset, size) in bytes of each argument, naturally aligned, and the total size.

    Raises:
        TargetError: The target cannot pass a type.
    """
    out: list[tuple[int, int]] = []
    end = 0
    for name in types:
        size = _SCALAR_BYTES.get(name)
        if size is None:
            raise TargetError(
                f"the toy target cannot pass a {name}",
                code="FLY-T530",
                allowed=", ".join(_SCALAR_BYTES),
            )
        start = -(-end // size) * size
        out.append((start, size))
        end = start + size
    return out, -(-end // 8) * 8


def _named(operations: Any, name: str) -> list[Any]:
    return [op.operation for op in operations if op.operation.name == name]


def _lower(kernel: Any) -> None:
    ir = mlir.ir
    name = str(kernel.attributes["sym_name"].value)
    block = kernel.regions[0].blocks[0]
    _lower_operations(kernel)
    _retype(kernel)
    types = [str(argument.type) for argument in block.arguments]
    indices = {index: block.add_argument(ir.IndexType.get(), kernel.location) for index in _INDICES}
    _replace_indices(kernel, indices)
    with ir.InsertionPoint(kernel), kernel.location:
        signature = ir.FunctionType.get([argument.type for argument in block.arguments], [])
        body = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(_body_name(name)),
                "function_type": ir.TypeAttr.get(signature),
                "sym_visibility": ir.StringAttr.get("private"),
            },
            regions=1,
        )
        parsed = ir.Module.parse(_loop_text(name, types))
        parsed.body.operations[0].operation.clone(ir.InsertionPoint(kernel))
    block.append_to(body.regions[0])
    kernel.erase()


def _body_name(kernel: str) -> str:
    return f"{kernel}.thread"


def _operations(kernel: Any) -> list[Any]:
    """Return the operations inside `kernel`, outer before inner, as a list that may be edited."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op.operation)
        return mlir.ir.WalkResult.ADVANCE

    kernel.walk(visit, mlir.ir.WalkOrder.PRE_ORDER)
    return found[1:]


def _replace_indices(kernel: Any, indices: Mapping[str, Any]) -> None:
    """Give the operations that ask for an index the body's arguments, and end it as a function."""
    for op in _operations(kernel):
        if op.name == "gpu.return":
            with mlir.ir.InsertionPoint(op), op.location:
                mlir.ir.Operation.create("func.return")
            op.erase()
        elif _index_name(op) in indices:
            op.results[0].replace_all_uses_with(indices[_index_name(op)])
            op.erase()


def _index_name(op: Any) -> str:
    if not op.name.startswith("gpu.") or "dimension" not in op.attributes:
        return ""
    axis = str(op.attributes["dimension"]).removeprefix("#gpu<dim ").removesuffix(">")
    return f"{op.name.removeprefix('gpu.')}.{axis}"


def _retype(kernel: Any) -> None:
    """Turn every value of a Fly pointer type into an LLVM pointer, where it stands."""
    pointer = mlir.ir.Type.parse("!llvm.ptr")
    for op in (kernel, *_operations(kernel)):
        arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
        for value in (*op.results, *arguments):
            if str(value.type).startswith(_FLY_POINTER):
                value.set_type(pointer)


def _lower_operations(kernel: Any) -> None:
    """Replace Fly operations.

    Operand types are recorded first, because replacing an operation changes its users' operands
    from Fly pointers, which know their element type and space, to LLVM pointers.
    """
    recorded = [(op, [str(value.type) for value in op.operands]) for op in _operations(kernel)]
    for op, types in recorded:
        rule = _RULES.get(op.name)
        if rule is not None:
            with mlir.ir.InsertionPoint(op), op.location:
                replacements = rule(op, types)
            for old, new in zip(op.results, replacements, strict=False):
                old.replace_all_uses_with(new)
        elif not _is_kept(op):
            raise _refusal(op, op.name)
    for op, _ in reversed(recorded):
        if op.name in _RULES:
            op.erase()


def _is_kept(op: Any) -> bool:
    dialect = op.name.partition(".")[0]
    return dialect in _KEPT_DIALECTS or op.name == "gpu.return" or _index_name(op) in _INDICES


def _refusal(op: Any, what: str) -> TargetError:
    return TargetError(
        f"the toy target has no {what}",
        code="FLY-T531",
        allowed="arithmetic, control flow, global and register memory, universal copies",
        location=mlir.source_location(op.location),
    )


def _llvm(name: str, results: Sequence[str], operands: Sequence[Any], **attributes: str) -> Any:
    parse_type, parse_attribute = mlir.ir.Type.parse, mlir.ir.Attribute.parse
    return mlir.ir.Operation.create(
        f"llvm.{name}",
        results=[parse_type(text) for text in results],
        operands=list(operands),
        attributes={key: parse_attribute(text) for key, text in attributes.items()},
    )


def _element(op: Any, pointer: str) -> tuple[str, int]:
    """Return the element type of a Fly pointer and its bytes; refuse what is not plain memory."""
    element, space, _, swizzle = (
        part.strip() for part in pointer[len(_FLY_POINTER) : -1].split(",")
    )
    if swizzle != '""' or space not in ('"global"', '"generic"', '"register"'):
        raise _refusal(op, f"memory such as {pointer}")
    if element not in _SCALAR_BYTES:
        raise _refusal(op, f"element type {element}")
    return element, _SCALAR_BYTES[element]


def _add_offset(op: Any, types: list[str]) -> list[Any]:
    element, _ = _element(op, types[0])
    step = _llvm(
        "getelementptr",
        ["!llvm.ptr"],
        op.operands,
        elem_type=element,
        rawConstantIndices="array<i32: -2147483648>",
        noWrapFlags="0 : i32",
    )
    return [step.result]


def _same(op: Any, types: list[str]) -> list[Any]:
    _element(op, types[0])
    return [op.operands[0]]


def _alloca(op: Any, _types: list[str]) -> list[Any]:
    _element(op, str(op.results[0].type))
    size = _llvm("mlir.constant", ["i64"], [], value=f"{int(op.attributes['bytes'])} : i64")
    space = _llvm("alloca", ["!llvm.ptr"], [size.result], elem_type="i8", alignment="16 : i64")
    return [space.result]


def _load(op: Any, types: list[str]) -> list[Any]:
    return [_load_from(op, op.operands[0], types[0], str(op.results[0].type))]


def _load_from(op: Any, pointer: Any, kind: str, result: str) -> Any:
    # Vectors need no more alignment than their elements have here.
    return _llvm(
        "load", [result], [pointer], alignment=f"{_element(op, kind)[1]} : i64", ordering="0 : i64"
    ).result


def _store(op: Any, types: list[str]) -> list[Any]:
    _store_to(op, op.operands[0], op.operands[1], types[1])
    return []


def _store_to(op: Any, value: Any, pointer: Any, kind: str) -> None:
    size = _element(op, kind)[1]
    _llvm("store", [], [value, pointer], alignment=f"{size} : i64", ordering="0 : i64")


def _atom(_op: Any, _types: list[str]) -> list[Any]:
    # An atom is all type. Its users are replaced before it is erased, so nothing stands for it.
    return []


def _copy(op: Any, types: list[str]) -> list[Any]:
    """Lower a universal copy: a load to a vector, or a store of one; a predicate guards either."""
    if not types[0].startswith('!fly.copy_atom<"universal_copy<'):
        raise _refusal(op, types[0])
    ir = mlir.ir
    sizes = [int(size) for size in op.attributes["operandSegmentSizes"]]
    _, source, *rest = op.operands
    target = rest.pop(0) if sizes[2] else None
    predicate = rest[0] if sizes[3] else None
    loads = len(op.results) == 1
    if loads != types[1].startswith(_FLY_POINTER):
        raise _refusal(op, "copy from memory to memory")
    results = [op.results[0].type] if loads else []

    def access() -> list[Any]:
        if loads:
            return [_load_from(op, source, types[1], str(results[0]))]
        _store_to(op, source, target, types[2])
        return []

    if predicate is None:
        return access()
    branch = ir.Operation.create("scf.if", results=results, operands=[predicate], regions=2)
    with ir.InsertionPoint(ir.Block.create_at_start(branch.regions[0])):
        ir.Operation.create("scf.yield", operands=access())
    if loads:
        with ir.InsertionPoint(ir.Block.create_at_start(branch.regions[1])):
            # A load that the predicate suppresses keeps the old value of its destination.
            old = target if target is not None else _llvm("mlir.zero", [str(results[0])], []).result
            ir.Operation.create("scf.yield", operands=[old])
    return list(branch.results)


_RULES: Mapping[str, Callable[[Any, list[str]], list[Any]]] = {
    "fly.add_offset": _add_offset,
    "fly.alloca": _alloca,
    "fly.recast_iter": _same,
    "fly.ptr_load": _load,
    "fly.ptr_store": _store,
    "fly.make_copy_atom": _atom,
    "fly.copy_atom_call_ssa": _copy,
}


def _loop_text(kernel: str, types: Sequence[str]) -> str:
    """Return the function that runs every thread of a launch, one after another."""
    listed = ", ".join(f'"{name}"' for name in types)
    signature = f"func.func @{kernel}(%launch: !llvm.ptr) -> i32"
    lines = [f"{signature} attributes {{toy_args = [{listed}]}} {{"]

    def read(name: str, base: str, offset: int, kind: str) -> None:
        lines.append(
            f"  %{name}.p = llvm.getelementptr {base}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8"
        )
        lines.append(f"  %{name} = llvm.load %{name}.p : !llvm.ptr -> {kind}")

    for field in ("grid", "block"):
        for position, axis in enumerate("xyz"):
            name = f"{field}.{axis}"
            read(f"{name}.i32", "%launch", getattr(FlyLaunch, field).offset + 4 * position, "i32")
            lines.append(f"  %{name} = arith.index_castui %{name}.i32 : i32 to index")
    read("kernarg", "%launch", FlyLaunch.kernarg.offset, "!llvm.ptr")
    for position, ((offset, _), kind) in enumerate(
        zip(argument_layout(types)[0], types, strict=True)
    ):
        read(f"arg{position}", "%kernarg", offset, kind)
    lines += ["  %zero = arith.constant 0 : index", "  %one = arith.constant 1 : index"]
    counters = [(field, axis) for field in ("grid", "block") for axis in "zyx"]
    for field, axis in counters:
        lines.append(f"  scf.for %{field}.{axis}.at = %zero to %{field}.{axis} step %one {{")
    operands = [f"%arg{position}" for position in range(len(types))]
    operands += [
        f"%{field}.{axis}{at}"
        for at in (".at", "")
        for field in ("grid", "block")
        for axis in "xyz"
    ]
    kinds = [*types, *["index"] * len(_INDICES)]
    lines.append(
        f"  func.call @{_body_name(kernel)}({', '.join(operands)}) : ({', '.join(kinds)}) -> ()"
    )
    lines += ["  }"] * len(counters)
    lines += ["  %ok = arith.constant 0 : i32", "  func.return %ok : i32", "}"]
    # The parser wants to see what is called; the real body takes this declaration's place.
    lines.append(f"func.func private @{_body_name(kernel)}({', '.join(kinds)})")
    return "\n".join(lines)
