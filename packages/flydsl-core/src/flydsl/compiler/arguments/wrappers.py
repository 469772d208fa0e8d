"""Arguments whose layout the caller chooses: `from_dlpack`, `from_torch_tensor`, `from_c_void_p`.

A `TensorArgument` starts with a fully static layout, so that every extent and stride is a constant
in the kernel; `mark_shape_dynamic`, `mark_stride_dynamic` and `mark_layout_dynamic` make parts of
it dynamic again, with a divisibility that the kernel may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

from flydsl.compiler.arguments.dtypes import element_of
from flydsl.compiler.arguments.foreign import check_address, is_foreign, view_of
from flydsl.compiler.arguments.tensors import alignment_of, check_torch, library_of, unit_axis
from flydsl.errors import UserTypeError, UserValueError
from flydsl.plugins.payloads import ArgLeaf, ArgSpec

__all__ = [
    "PointerArgument",
    "TensorArgument",
    "from_c_void_p",
    "from_dlpack",
    "from_torch_tensor",
]

_INT32_MAX = 2**31 - 1
_INSIDE = ("shared", "register")
"""Address spaces without memory outside a kernel."""


def _integer(value: object) -> int | None:
    """Return an integer, NumPy's too, as an int; None for anything else and for truth values."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value)


def _power_of_two(value: object) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0


class TensorArgument:
    """A tensor with a layout that is static except for the marked leaves.

    Args:
        tensor: A torch tensor, NumPy array, or object with an array interface or DLPack.
        assumed_align: Alignment of the address in bytes that the kernel may rely on; None takes
            what the address has, up to 16.
        use_32bit_stride: Pass dynamic strides as 32-bit integers.

    Raises:
        UserTypeError: `tensor` is no tensor, or one that kernels cannot take.
        UserValueError: The address does not have the assumed alignment.
    """

    __slots__ = (
        "_key",
        "_small_strides",
        "address",
        "alignment",
        "device",
        "dtype",
        "keep",
        "read_only",
        "shape",
        "shape_marks",
        "stride_marks",
        "strides",
    )

    def __init__(
        self, tensor: Any, *, assumed_align: int | None = None, use_32bit_stride: bool = False
    ) -> None:
        if library_of(tensor) == "torch":
            check_torch(tensor)
            self.address: int = tensor.data_ptr()
            self.shape = tuple(int(n) for n in tensor.shape)
            self.strides = tuple(int(n) for n in tensor.stride())
            self.dtype = str(tensor.dtype).removeprefix("torch.")
            self.device = str(tensor.device)
            self.keep: object = tensor
            self.read_only = False
        elif is_foreign(tensor):
            view = view_of(tensor)
            self.address, self.shape, self.strides = view.address, view.shape, view.strides
            self.dtype, self.device, self.keep = view.dtype, view.device, (view.keep, tensor)
            self.read_only = view.read_only
        else:
            raise UserTypeError(
                f"a {type(tensor).__name__} is no tensor",
                code="FLY-U409",
                value=tensor,
                allowed="torch tensors, NumPy arrays, objects with an array interface or DLPack",
            )
        element_of(self.dtype)
        check_address(self.address, self.shape, self.device, tensor)
        self.alignment = alignment_of(self.address) if assumed_align is None else assumed_align
        _check_alignment(self.address, self.alignment)
        self.shape_marks: dict[int, int] = {}
        self.stride_marks: dict[int, int] = {}
        self._small_strides = use_32bit_stride
        self._key: tuple[object, ...] | None = None

    def mark_layout_dynamic(self, leading_dim: int | None = None, divisibility: int = 1) -> Self:
        """Make all extents dynamic, and all strides but that of the leading axis.

        Args:
            leading_dim: The axis whose stride stays static; None takes the unit-stride axis.
            divisibility: A power of two that divides every dynamic stride.

        Raises:
            UserValueError: There is no unit-stride axis and none is named, or an argument is out of
                range.
        """
        rank = len(self.shape)
        leading = unit_axis(self.shape, self.strides) if leading_dim is None else leading_dim
        if leading_dim is None and leading < 0:
            raise UserValueError(
                "no axis has stride 1, so the leading axis must be named",
                code="FLY-U410",
                value=self.strides,
                hint="pass leading_dim=",
            )
        (leading,) = self._axes([leading])
        self.mark_shape_dynamic(list(range(rank)))
        others = [axis for axis in range(rank) if axis != leading]
        return self.mark_stride_dynamic(others, divisibility) if others else self

    def mark_shape_dynamic(
        self, dims: int | Sequence[int], divisibility: int | Sequence[int] = 1
    ) -> Self:
        """Make the extents of `dims` dynamic, each a multiple of its `divisibility`.

        Raises:
            UserValueError: An axis or divisibility is out of range, or an extent is no multiple.
        """
        self._mark(self.shape_marks, self.shape, dims, divisibility)
        return self

    def mark_stride_dynamic(
        self, dims: int | Sequence[int], divisibility: int | Sequence[int] = 1
    ) -> Self:
        """Make the strides of `dims` dynamic, each a multiple of its `divisibility`.

        Raises:
            UserValueError: An axis or divisibility is out of range, or a stride is no multiple.
        """
        self._mark(self.stride_marks, self.strides, dims, divisibility)
        return self

    def _axes(self, dims: Sequence[int]) -> list[int]:
        rank = len(self.shape)
        found = [_integer(axis) for axis in dims]
        for axis, given in zip(found, dims, strict=True):
            if axis is None or not -rank <= axis < rank:
                raise UserValueError(
                    "no such axis", code="FLY-U410", value=given, allowed=f"{-rank} to {rank - 1}"
                )
        return [axis % rank for axis in found if axis is not None]

    def _mark(
        self,
        marks: dict[int, int],
        values: tuple[int, ...],
        dims: int | Sequence[int],
        divisibility: int | Sequence[int],
    ) -> None:
        several = isinstance(dims, Sequence) and not isinstance(dims, str)
        each = isinstance(divisibility, Sequence) and not isinstance(divisibility, str)
        if each and not several:
            raise UserValueError(
                "one axis takes one divisibility", code="FLY-U410", value=divisibility
            )
        given: Any = dims if several else [dims]
        axes = self._axes(list(given))
        factors: list[Any] = list(divisibility) if each else [divisibility] * len(axes)  # type: ignore[arg-type]
        if len(factors) != len(axes):
            raise UserValueError(
                "as many divisibilities as axes are needed",
                code="FLY-U410",
                value=divisibility,
                allowed=f"one, or {len(axes)}",
            )
        for axis, one in zip(axes, factors, strict=True):
            factor = _integer(one)
            if factor is None or not _power_of_two(factor):
                raise UserValueError("a divisibility is a power of two", code="FLY-U410", value=one)
            if values[axis] % factor:
                raise UserValueError(
                    f"{values[axis]} along axis {axis} is no multiple of {factor}",
                    code="FLY-U410",
                    value=values,
                )
            marks[axis] = factor
        self._key = None

    @property
    def tensor(self) -> Any:
        """The tensor that was wrapped."""
        return self.keep[1] if isinstance(self.keep, tuple) else self.keep

    @property
    def key(self) -> tuple[object, ...]:
        """What distinguishes specialisations: everything but the dynamic values."""
        if self._key is None:
            extents = [self._leaf(self.shape_marks, i, n, 0) for i, n in enumerate(self.shape)]
            strides = [self._leaf(self.stride_marks, i, n, 1) for i, n in enumerate(self.strides)]
            layout = f"({','.join(extents)}):({','.join(strides)})"
            if len(extents) == 1:
                layout = f"{extents[0]}:{strides[0]}"
            text = element_of(self.dtype).ir_text
            kept = ("read-only",) if self.read_only else ()
            self._key = ("tensor", text, layout, self.alignment, *kept)
        return self._key

    def _wide(self, value: int, stride: int) -> bool:
        return not self._small_strides if stride else value > _INT32_MAX

    def _leaf(self, marks: dict[int, int], axis: int, value: int, stride: int) -> str:
        factor = marks.get(axis)
        if factor is None:
            return str(value)
        words = ["i64"] if self._wide(value, stride) else []
        words += [f"div={factor}"] if factor > 1 else []
        return f"?{{{' '.join(words)}}}" if words else "?"

    def spec(self) -> ArgSpec:
        """Return the specification of this argument.

        Raises:
            UserValueError: The tensor has no axes.
        """
        if not self.shape:
            raise UserValueError(
                "a tensor without axes cannot be a kernel's tensor argument",
                code="FLY-U403",
                hint="reshape it to one axis of extent 1",
            )
        small: list[ArgLeaf] = []
        large: list[ArgLeaf] = []
        for stride, name, values, marks in (
            (0, "shape", self.shape, self.shape_marks),
            (1, "strides", self.strides, self.stride_marks),
        ):
            for axis in sorted(marks):
                wide = self._wide(values[axis], stride)
                if not wide and abs(values[axis]) > _INT32_MAX:
                    raise UserValueError(
                        f"the stride of axis {axis} needs more than 32 bits",
                        code="FLY-U410",
                        value=values[axis],
                        hint="leave use_32bit_stride out",
                    )
                leaf = ArgLeaf("q" if wide else "i", f"v.{name}[{axis}]")
                (large if wide else small).append(leaf)
        text, layout = self.key[1], self.key[2]
        return ArgSpec(
            key=self.key,
            ir_type=f'!fly.memref<{text}, "global", "{layout}", {self.alignment} : i64>',
            leaves=(ArgLeaf("Q", "v.address"), *small, *large),
            guard="type(v) is kind and v.key == key and v.device == device",
            names={"kind": type(self), "key": self.key, "device": self.device},
            device=self.device,
            read_only=self.read_only,
        )


def _check_alignment(address: int, alignment: object) -> None:
    if not _power_of_two(alignment):
        raise UserValueError("an alignment is a power of two", code="FLY-U411", value=alignment)
    assert isinstance(alignment, int)
    if address % alignment:
        raise UserValueError(
            f"the address {address:#x} does not have the assumed alignment",
            code="FLY-U411",
            value=alignment,
            allowed=f"at most {address & -address} bytes",
        )


class PointerArgument:
    """A raw address as an `fx.Pointer` argument; see `from_c_void_p`."""

    __slots__ = ("address", "address_space", "alignment", "element")

    def __init__(self, element: str, address: int, address_space: str, alignment: int) -> None:
        self.element = element
        self.address = address
        self.address_space = address_space
        self.alignment = alignment

    @property
    def key(self) -> tuple[object, ...]:
        """What distinguishes specialisations."""
        return ("pointer", self.element, self.address_space, self.alignment)

    def spec(self) -> ArgSpec:
        """Return the specification of this argument."""
        return ArgSpec(
            key=self.key,
            ir_type=(
                f'!fly.ptr<{self.element}, "{self.address_space}", {self.alignment} : i64, "">'
            ),
            leaves=(ArgLeaf("Q", "v.address"),),
            guard="type(v) is kind and v.key == key",
            names={"kind": type(self), "key": self.key},
        )


def from_dlpack(
    tensor: object, *, assumed_align: int | None = None, use_32bit_stride: bool = False
) -> TensorArgument:
    """Return `tensor` as an argument with a fully static layout; see `TensorArgument`."""
    return TensorArgument(tensor, assumed_align=assumed_align, use_32bit_stride=use_32bit_stride)


def from_torch_tensor(
    tensor: object, *, assumed_align: int | None = None, use_32bit_stride: bool = False
) -> TensorArgument:
    """Return a torch tensor as an argument with a fully static layout; see `TensorArgument`."""
    return TensorArgument(tensor, assumed_align=assumed_align, use_32bit_stride=use_32bit_stride)


def from_c_void_p(
    elem_type: Any,
    pointer: Any,
    *,
    address_space: object = "global",
    assumed_align: int | None = None,
) -> PointerArgument:
    """Return a raw address as an `fx.Pointer` argument.

    Args:
        elem_type: Numeric class of the elements.
        pointer: An integer or a ``ctypes.c_void_p``.
        address_space: Name of the address space, or an enumerator whose name is one.
        assumed_align: Alignment in bytes; None means the size of one element.

    Raises:
        UserTypeError: `elem_type` is no numeric class or `pointer` no address.
        UserValueError: The address does not have the assumed alignment.
    """
    from flydsl.expr.numeric import Numeric

    if not (isinstance(elem_type, type) and issubclass(elem_type, Numeric) and elem_type.storable):
        raise UserTypeError(
            "a pointer's element type is a numeric class with whole bytes",
            code="FLY-U412",
            value=elem_type,
        )
    given = getattr(pointer, "value", pointer)
    address = 0 if given is None else _integer(given)
    if address is None:
        raise UserTypeError("not an address", code="FLY-U412", value=pointer, allowed="an int")
    if not 0 <= address < 1 << 64:
        raise UserValueError(
            "not an address", code="FLY-U412", value=address, allowed="0 to 2**64 - 1"
        )
    space = str(getattr(address_space, "name", address_space)).lower()
    if space in _INSIDE:
        raise UserValueError(
            "only a kernel has such memory, so there is no address of it to pass",
            code="FLY-U412",
            value=space,
            allowed="global, generic",
        )
    alignment = elem_type.width // 8 if assumed_align is None else assumed_align
    _check_alignment(address, alignment)
    unsigned = "" if elem_type.signed or elem_type.is_float else "u"
    return PointerArgument(f"{unsigned}{elem_type.ir_text}", address, space, alignment)
