"""Thread, block and grid identifiers, barriers.

Sizes that the kernel was compiled for are constants; others are read from the hidden kernel
arguments that the runtime fills ("Implicit Arguments" in LLVM's AMDGPU user guide, code object
version 5 and 6): block counts at bytes 0, 4 and 8, block sizes at bytes 12, 14 and 16.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, rule

__all__: list[str] = []

_AXES = {"x": 0, "y": 1, "z": 2}
_BLOCK_COUNT_AT, _BLOCK_SIZE_AT = 0, 12


def _axis(op: Any) -> str:
    text = str(op.attributes["dimension"])  # "#gpu<dim x>"
    return text[-2]


def _index(low: Lowering, value: Value, op: Any) -> Value:
    """Widen an unsigned 32-bit number to the operation's own (index) type.

    Uses that only narrow it again take the number itself.
    """
    narrowed = [
        use.owner
        for use in op.result.uses
        if use.owner.name in ("arith.index_cast", "arith.index_castui")
        and use.owner.result.type == value.type
    ]
    for cast in narrowed:
        cast.result.replace_all_uses_with(value)
        cast.operation.erase()
    return low.b.value("arith.index_castui", op.result.type, (value,))


def _hidden(low: Lowering, offset: int, width: int) -> Value:
    b = low.b
    base = b.intrinsic("amdgcn.implicitarg.ptr", b.pointer(4), ()).result
    number = b.load(
        b.gep(base, offset, b.type("i8")),
        b.type(f"i{8 * width}"),
        width,
        flags={"invariant": "unit"},
    )
    return number if width == 4 else b.value("llvm.zext", b.type("i32"), (number,))


@rule("gpu.thread_id")
def thread_id(low: Lowering, op: Any) -> list[Value]:
    """Work-item id, with the range that the block size implies."""
    axis = _axis(op)
    size = low.block[_AXES[axis]] if low.block else None
    if size == 1:
        return [_index(low, low.b.constant(0), op)]
    limit = size or low.facts.max_threads_per_block
    value = low.b.value(
        f"rocdl.workitem.id.{axis}", low.b.type("i32"), (),
        {"range": f"#llvm.constant_range<i32, 0, {limit}>"},
    )  # fmt: skip
    return [_index(low, value, op)]


@rule("gpu.block_id")
def block_id(low: Lowering, op: Any) -> list[Value]:
    """Workgroup id, below the largest grid."""
    axis = _axis(op)
    value = low.b.value(
        f"rocdl.workgroup.id.{axis}", low.b.type("i32"), (),
        {"range": f"#llvm.constant_range<i32, 0, {low.facts.max_grid[_AXES[axis]]}>"},
    )  # fmt: skip
    return [_index(low, value, op)]


@rule("gpu.block_dim")
def block_dim(low: Lowering, op: Any) -> list[Value]:
    """Block size: a constant when the kernel is compiled for one."""
    axis = _AXES[_axis(op)]
    if low.block:
        return [_index(low, low.b.constant(low.block[axis]), op)]
    return [_index(low, _hidden(low, _BLOCK_SIZE_AT + 2 * axis, 2), op)]


@rule("gpu.grid_dim")
def grid_dim(low: Lowering, op: Any) -> list[Value]:
    """Number of blocks."""
    return [_index(low, _hidden(low, _BLOCK_COUNT_AT + 4 * _AXES[_axis(op)], 4), op)]


@rule("gpu.lane_id")
def lane_id(low: Lowering, op: Any) -> list[Value]:
    """Lane within the wave."""
    return [_index(low, low.lane(), op)]


@rule("gpu.subgroup_size")
def subgroup_size(low: Lowering, op: Any) -> list[Value]:
    """Wave size, which the architecture fixes."""
    return [_index(low, low.b.constant(low.facts.wave_size), op)]


@rule("gpu.barrier")
def barrier(low: Lowering, _op: Any) -> list[Value]:
    """Make this workgroup's writes visible to it, and wait for all its waves."""
    fence(low, 5)
    low.b.op("rocdl.s.barrier")
    fence(low, 4)
    return []


def fence(low: Lowering, ordering: int, scope: str = "workgroup") -> None:
    """Emit a fence; `ordering` is LLVM's number (4 acquire, 5 release, 6 both, 7 total order)."""
    low.b.op("llvm.fence", (), (), {"ordering": f"{ordering} : i64", "syncscope": f'"{scope}"'})
