"""Tensor arguments with a dynamic layout: the default specialisation.

Every extent is dynamic, 32 bits wide unless it needs 64; every stride is dynamic and 64 bits wide,
except that the unit-stride axis is static. So one compilation serves all sizes, and the innermost
axis still vectorises. The alignment of the address (at most 16 bytes) is part of the key.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flydsl.axes import MAX_ALIGNMENT, alignment_of, unit_axis
from flydsl.compiler.arguments.dtypes import Element, element_of
from flydsl.compiler.arguments.foreign import (
    check_address,
    check_unmasked,
    element_strides,
    is_foreign,
    view_of,
)
from flydsl.compiler.exchange import exchanged, negation_flag
from flydsl.errors import UserTypeError, UserValueError
from flydsl.plugins.payloads import ArgLeaf, ArgSpec, NativeRead

__all__ = [
    "MAX_ALIGNMENT",
    "alignment_of",
    "check_torch",
    "describe_tensor",
    "library_of",
    "unit_axis",
]

_INT32_MAX = 2**31 - 1
_INT32 = (-(2**31), _INT32_MAX)
_INT64 = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class _Reader:
    """How generated code reads a tensor of one kind.

    Attributes:
        guard: What must hold for the other expressions to be meaningful; may bind names.
        address: Expression of the address.
        extent, stride: Expressions with ``{i}`` for the axis; the stride counts elements.
        names: Names that the expressions use.
    """

    guard: str
    address: str
    extent: str
    stride: str
    names: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a tensor is like now."""

    element: Element
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    read_only: bool = False


def library_of(value: object) -> str:
    """Return ``"torch"`` or ``"numpy"`` if `value` is such a library's tensor, else an empty text.

    Neither is imported: a value can only come from a library that the caller has imported.
    """
    for name, kind in (("torch", "Tensor"), ("numpy", "ndarray")):
        module = sys.modules.get(name)
        tensor_type = getattr(module, kind, None)
        if isinstance(tensor_type, type) and isinstance(value, tensor_type):
            return name
    return ""


def check_torch(value: Any) -> None:
    """Refuse torch tensors whose memory does not hold their elements as strided numbers.

    Raises:
        UserTypeError: A nested, quantised, sparse or otherwise unstrided tensor, a wrapper of
            `torch.func`, or a negated or conjugated view, which torch evaluates when it reads it.
    """
    what, hint = "", ""
    try:
        if value.is_nested:
            what, hint = "is nested: a list of tensors", "pad it with torch.nested.to_padded_tensor"
        elif value.is_quantized:
            what = "is quantised, and kernels do not see its scale"
            hint = "pass x.int_repr() and its scale, or x.dequantize()"
        elif str(value.layout) != "torch.strided":
            what, hint = f"has the layout {value.layout}", "convert it with .to_dense()"
        elif value.is_neg() or value.is_conj():
            what = "is a negated or conjugated view, whose memory holds other values"
            hint = "pass x.resolve_neg().resolve_conj()"
        else:
            value.data_ptr()
            value.stride()
    except RuntimeError as error:
        what = f"has no plain memory: {str(error).splitlines()[0]}"
        hint = "inside torch.vmap and torch.func, call the launcher through a custom operator"
    if what:
        raise UserTypeError(
            f"this torch tensor {what}",
            code="FLY-U402",
            value=type(value).__name__,
            allowed="strided tensors in memory",
            hint=hint,
        )


def _torch(value: Any) -> tuple[_Facts, _Reader]:
    check_torch(value)
    element = element_of(str(value.dtype).removeprefix("torch."))
    device = value.device
    facts = _Facts(
        element, value.data_ptr(), tuple(value.shape), tuple(value.stride()), str(device)
    )
    if device.type in ("cpu", "cuda"):
        # Comparing devices costs more than asking for the kind and the index.
        here = f"v.is_{device.type}"
        here += "" if device.index is None else f" and v.get_device() == {device.index}"
    else:
        here = "v.device == device"
    # One call for all extents and one for all strides: each costs about as much as one for one.
    here += " and not v.is_neg()"
    guard = f"v.dtype is dtype and {here} and len(shape := v.shape) == {len(facts.shape)}"
    reader = _Reader(
        f"{guard} and (steps := v.stride()) is not None",
        "v.data_ptr()",
        "shape[{i}]",
        "steps[{i}]",
        {"dtype": value.dtype, "device": device},
    )
    return facts, reader


def _numpy(value: Any) -> tuple[_Facts, _Reader]:
    if not value.dtype.isnative:
        view_of(value)  # explains what is wrong with it
    element = element_of(value.dtype.name)
    size = element.size
    strides = element_strides(value.strides, size, value)
    check_unmasked(value)
    writable = bool(value.flags.writeable)
    facts = _Facts(element, value.ctypes.data, value.shape, strides, "cpu", not writable)
    guard = f"v.dtype == dtype and v.ndim == {value.ndim} and v.flags.writeable is {writable}"
    if value.ndim:
        guard += " and (shape := v.shape) is not None and (steps := v.strides) is not None"
    if size > 1:
        # Strides in bytes that are no multiple of the element size are the slow path's error.
        steps = " | ".join(f"steps[{i}]" for i in range(value.ndim))
        guard += f" and not ({steps}) & {size - 1}" if steps else ""
    shift = size.bit_length() - 1
    reader = _Reader(
        guard,
        "v.ctypes.data",
        "shape[{i}]",
        f"(steps[{{i}}] >> {shift})" if shift else "steps[{i}]",
        {"dtype": value.dtype},
    )
    return facts, reader


def _foreign(value: Any) -> tuple[_Facts, _Reader]:
    view = view_of(value)
    element = element_of(view.dtype)
    facts = _Facts(element, view.address, view.shape, view.strides, view.device, view.read_only)
    # The view stays alive in a local of the generated closure until the call has returned.
    guard = (
        f"(view := view_of(v)).dtype == {view.dtype!r} and view.device == {view.device!r}"
        f" and len(view.shape) == {len(view.shape)} and view.read_only is {view.read_only}"
    )
    reader = _Reader(
        guard, "view.address", "view.shape[{i}]", "view.strides[{i}]", {"view_of": view_of}
    )
    return facts, reader


def describe_tensor(value: object) -> ArgSpec | None:
    """Return the layout-dynamic specification of a tensor, or None if `value` is no tensor.

    Raises:
        UserTypeError: Its data type, byte order or memory cannot be used.
        UserValueError: It has no axes.
    """
    library = library_of(value)
    if library == "torch":
        facts, reader = _torch(value)
    elif library == "numpy":
        facts, reader = _numpy(value)
    elif is_foreign(value):
        facts, reader = _foreign(value)
    else:
        return None
    if not facts.shape:
        raise UserValueError(
            "a tensor without axes cannot be a kernel's tensor argument",
            code="FLY-U403",
            value=value,
            hint="reshape it to one axis of extent 1, or pass its element as a scalar",
        )
    return _specification(value, facts, reader)


def _specification(value: object, facts: _Facts, reader: _Reader) -> ArgSpec:
    check_address(facts.address, facts.shape, facts.device, value)
    rank = len(facts.shape)
    unit = unit_axis(facts.shape, facts.strides)
    wide = tuple(extent > _INT32_MAX for extent in facts.shape)
    alignment = alignment_of(facts.address)
    guard = [
        f"type(v) is kind and {reader.guard}",
        f"((capped := (address := {reader.address}) | {MAX_ALIGNMENT}) & -capped) == {alignment}",
    ]
    small: list[ArgLeaf] = []
    large: list[ArgLeaf] = []
    extents: list[str] = []
    strides: list[str] = []
    if facts.device != "meta":
        elements = " and ".join(reader.extent.format(i=axis) for axis in range(rank))
        guard.append(f"(address or not ({elements}))")
    for axis in range(rank):
        extent, stride = reader.extent.format(i=axis), reader.stride.format(i=axis)
        extents.append("?{i64}" if wide[axis] else "?")
        if wide[axis]:
            large.append(ArgLeaf("q", extent, *_INT64))
            guard.append(f"{extent} > {_INT32_MAX}")
        else:
            small.append(ArgLeaf("i", extent, *_INT32))
        if axis == unit:
            strides.append("1")
            guard.append(f"{stride} == 1")
        else:
            strides.append("?{i64}")
            if unit < 0:
                guard.append(f"{stride} != 1")
    large += [
        ArgLeaf("q", reader.stride.format(i=axis), *_INT64) for axis in range(rank) if axis != unit
    ]
    layout = f"{_tuple(extents)}:{_tuple(strides)}"
    text = facts.element.ir_text
    return ArgSpec(
        key=("tensor", text, layout, alignment, *(("read-only",) if facts.read_only else ())),
        ir_type=f'!fly.memref<{text}, "global", "{layout}", {alignment} : i64>',
        leaves=(ArgLeaf("Q", "address"), *small, *large),
        guard=" and ".join(guard),
        names={"kind": type(value), **reader.names},
        device=facts.device,
        read_only=facts.read_only,
        native=_native(value, facts, unit, wide),
    )


def _native(value: object, facts: _Facts, unit: int, wide: tuple[bool, ...]) -> NativeRead | None:
    """Return how machine code reads the tensor, if its library tells the same about it there."""
    seen = exchanged(value)
    known = (facts.address, facts.shape, facts.strides)
    if seen is None or (seen.address, seen.shape, seen.strides) != known:
        return None
    torch: Any = sys.modules["torch"] if library_of(value) == "torch" else None
    flag = None if torch is None else negation_flag(torch)
    axes = range(len(wide))
    sources = [(axis, False) for axis in axes if not wide[axis]]
    sources += [(axis, False) for axis in axes if wide[axis]]
    sources += [(axis, True) for axis in axes if axis != unit]
    return NativeRead(
        "tensor",
        type(value),
        function=seen.function,
        dtype=seen.dtype,
        device=seen.device,
        rank=len(wide),
        alignment=alignment_of(facts.address),
        unit=unit,
        value="is_neg" if torch is not None and flag is None else "",
        flag=flag or (0, 0, 0),
        wide=tuple(axis for axis in axes if wide[axis]),
        sources=tuple(sources),
    )


def _tuple(leaves: Sequence[str]) -> str:
    return leaves[0] if len(leaves) == 1 else f"({','.join(leaves)})"
