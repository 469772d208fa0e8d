"""Running matrix multiply-adds: one instruction (`mma_atom_call`) or all of a tile (`gemm`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.emit import located
from flydsl.expr.enums import GemmTraversalOrder
from flydsl.expr.layouts import apply
from flydsl.expr.multiply import MmaAtom, TiledMma
from flydsl.expr.numeric import as_numeric
from flydsl.expr.tensors import Tensor
from flydsl.expr.wrapping import FlyValue

__all__ = ["gemm", "mma_atom_call"]


def _mma(atom: Any, state: Mapping[str, Any]) -> MmaAtom:
    if not isinstance(atom, MmaAtom):
        raise UserTypeError("this is not an MMA atom", code="FLY-U270", value=atom)
    made: MmaAtom = atom.set_value(state) if state else atom
    return made


def _data_and_scale(operand: Any) -> tuple[Any, Any]:
    """Split ``[data, scale]``; the scale is an operand value or None."""
    if not isinstance(operand, (list, tuple)):
        return operand, None
    if len(operand) != 2:
        raise UserTypeError(
            "an operand with a scale is [data, scale]", code="FLY-U270", value=operand
        )
    data, scale = operand
    if isinstance(scale, FlyValue):
        return data, scale.value
    number = as_numeric(scale)
    if number is None or not number.is_integer:
        raise UserTypeError(
            "a scale is a register tensor or an integer of scale bytes",
            code="FLY-U270",
            value=scale,
        )
    return data, number.ir_value()


def _tensors(d: Any, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    for name, value in zip("DABC", (d, a, b, c), strict=True):
        if not isinstance(value, Tensor):
            raise UserTypeError(f"operand {name} is no tensor", code="FLY-U270", value=value)
        if value.kind.space != "register":
            raise UserTypeError(
                f"operand {name} of a matrix multiply-add is not in registers",
                code="FLY-U270",
                value=str(value.kind),
                hint="copy it to a fragment (make_fragment_A, fx.copy) first",
            )
    return d.value, a.value, b.value, c.value


def mma_atom_call(atom: Any, d: Any, a: Any, b: Any, c: Any, **state: Any) -> None:
    """Run one MMA instruction d = a b + c.

    Args:
        atom: An MMA atom or tiled MMA.
        d: Register tensor of one thread's values of the result.
        a: Register tensor of A's values, or ``[values, scale]`` for a scaled atom.
        b: Likewise for B.
        c: Register tensor to add; may be `d`.
        **state: State fields of the atom.

    Raises:
        UserError: The tensors do not hold one thread's values of the atom.
    """
    from flydsl.dialects import fly

    (a, scale_a), (b, scale_b) = _data_and_scale(a), _data_and_scale(b)
    operands = _tensors(d, a, b, c)
    with located():
        fly.mma_atom_call(_mma(atom, state).value, *operands, scale_a=scale_a, scale_b=scale_b)


def gemm(
    mma: Any,
    d: Any,
    a: Any,
    b: Any,
    c: Any,
    *,
    traversal_order: Any = None,
    traversal_layout: Any = None,
    **state: Any,
) -> None:
    """Multiply fragments: d = a b + c, unrolled over the modes after the first.

    Args:
        mma: An MMA atom or tiled MMA.
        d: Register tensor (values, M, N), or (values).
        a: (values, M, K), (values, M) or (values); or ``[tensor, scales]`` for a scaled atom.
        b: (values, N, K), (values, N) or (values); likewise.
        c: Like `d`, and may be `d`. The first step of each (m, n) adds to it, later ones to `d`.
        traversal_order: `GemmTraversalOrder`; default NMK (N innermost, K outermost).
        traversal_layout: Static layout: step -> tile number, M fastest, then N, then K.
        **state: State fields of the atom; and ``atom_callback``, called with the atom and (m, n, k)
            of each step, which returns the atom to use.

    Raises:
        UserError: Ranks or sizes do not fit, an operand is not in registers, or both an order and a
            layout are given.
    """
    from flydsl.dialects import fly

    order = _order_name(traversal_order)
    atom_callback = state.pop("atom_callback", None)
    (a, scale_a), (b, scale_b) = _data_and_scale(a), _data_and_scale(b)
    operands = _tensors(d, a, b, c)
    with located():
        atom = _mma(mma, state)
        if atom_callback is not None:
            scales, path = (scale_a, scale_b), (order, traversal_layout)
            _gemm_by_steps(atom, (d, a, b, c), scales, path, atom_callback)
            return
        fly.gemm(
            atom.value,
            operands[0],
            (operands[1], operands[2], operands[3]),
            scales=(scale_a, scale_b),
            traversal_order=order,
            traversal_layout=traversal_layout,
        )


def _order_name(order: Any) -> str:
    if order is None:
        return ""
    try:
        return (
            GemmTraversalOrder(order).name
            if isinstance(order, int)
            else (GemmTraversalOrder[str(order)].name)
        )
    except (ValueError, KeyError):
        raise UserValueError(
            "there is no such traversal order",
            code="FLY-U270",
            value=order,
            allowed=", ".join(item.name for item in GemmTraversalOrder),
        ) from None


def _gemm_by_steps(
    atom: MmaAtom,
    tensors: tuple[Any, Any, Any, Any],
    scales: tuple[Any, Any],
    traversal: tuple[str, Any],
    callback: Callable[[MmaAtom, tuple[int, int, int]], MmaAtom],
) -> None:
    """Emit one MMA call per step, with the atom that `callback` gives for it."""
    from flydsl.dialects import fly

    d, a, b, c = tensors
    steps = fly.gemm_steps(
        atom.value,
        d.value,
        (a.value, b.value, c.value),
        traversal_order=traversal[0],
        traversal_layout=traversal[1],
    )
    first = atom.mma_atom if isinstance(atom, TiledMma) else atom
    visited: set[tuple[int, int]] = set()
    for m, n, k in steps:
        chosen = callback(first, (m, n, k))
        if not isinstance(chosen, MmaAtom):
            raise UserTypeError(
                "the atom callback of gemm returns an MMA atom", code="FLY-U270", value=chosen
            )
        tail = (k,) if a.rank == 3 else ()
        parts = [d, a, b, d if (m, n) in visited else c]
        if d.rank > 1:
            places = ((m, n), (m, *tail), (n, *tail), (m, n))
            parts = [
                apply("slice", x, (None, *place)) for x, place in zip(parts, places, strict=True)
            ]
        visited.add((m, n))
        fly.mma_atom_call(
            chosen.value,
            *(part.value for part in parts),
            scale_a=_scale_at(scales[0], m, tail),
            scale_b=_scale_at(scales[1], n, tail),
        )


def _scale_at(scale: Any, tile: int, tail: tuple[int, ...]) -> Any:
    """Return the scales of one step: a tensor (V, tiles[, K]) is sliced, a scalar is shared."""
    from flydsl.dialects import fly, fly_types

    kind = None if scale is None else fly_types.of(scale.type)
    if not isinstance(kind, fly_types.MemRefType) or kind.layout.is_leaf or kind.layout.rank == 1:
        return scale
    return fly.slice(scale, (None, tile, *tail)[: kind.layout.rank])
