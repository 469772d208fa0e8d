"""Launchers that refuse arguments of other sizes than they were built for.

N, K and the layout of the weights are part of the code, so with another N, or with operands of
another K, it would multiply the wrong numbers. What the host knows of a call is checked before it:
integers, extents and sizes of arrays; run-time values inside a trace are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

from flydsl.diagnostics import at_user_line
from flydsl.errors import UserValueError
from flydsl.frontend import JitFunction
from flydsl_kernels.gemm.device.preshuffle.plan import IN_DTYPES, SIDE, PreshufflePlan

__all__ = ["CheckedLauncher", "Sizes", "check_call"]

__flydsl_internal__ = True  # errors are at the line of the caller

_OUT_BYTES = {"bf16": 2, "fp16": 2, "f32": 4}
_SHARED = 32
_SHAPED = 2


class CheckedLauncher(JitFunction):
    """A launcher with a check of its arguments before every call and compile.

    A function that ``flyc.compile`` made of it checks no later calls: it is for the same sizes.

    Attributes:
        check: Called with the arguments by name; raises for those that do not fit.
    """

    def __init__(
        self, function: Callable[..., Any], check: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Make a launcher of a function and a check of its arguments."""
        super().__init__(cast("FunctionType", function))
        self.check = check

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every parameter in order, after the check.

        Raises:
            UserTypeError: The arguments do not fit the parameter list.
            UserValueError: A size is not the one that the launcher is for.
        """
        values = super().bind(args, kwargs)
        self.check(values)
        return values

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments and launch; inside a trace, run the body in place."""
        with at_user_line():
            self.bind(args, kwargs)
        return super().__call__(*args, **kwargs)

    def _copy(self, instance: object) -> JitFunction:
        del instance  # no method
        return self


class Sizes:
    """What the host knows of an array: extents and bytes; unknown ones are None.

    Attributes:
        name: The argument's name, for messages.
        shape: Extents as integers, or None.
        item: Bytes of an element, or None.
    """

    __slots__ = ("item", "name", "shape")

    def __init__(self, name: str, array: Any) -> None:
        """Look at an array; None and traced tensors of run-time extents have no known sizes."""
        self.name = name
        shape, item = getattr(array, "shape", None), getattr(array, "itemsize", None)
        try:
            known = all(isinstance(extent, int) for extent in shape)  # type: ignore[union-attr]
        except TypeError:
            known = False
        self.shape = tuple(shape) if known else None  # type: ignore[arg-type]
        self.item = item if isinstance(item, int) else None

    @property
    def bytes(self) -> int | None:
        """Bytes of all elements."""
        if self.shape is None or self.item is None:
            return None
        size = self.item
        for extent in self.shape:
            size *= extent
        return size

    def element(self, size: int) -> None:
        """Raise UserValueError if elements are known to have another size in bytes."""
        if self.item is not None and self.item != size:
            raise _refused(f"elements of {self.name} have another size", self.item, f"{size} bytes")

    def row(self, size: int) -> None:
        """Raise UserValueError if rows are known to have another size in bytes."""
        if self.shape is not None and self.item is not None and len(self.shape) >= _SHAPED:
            found = self.shape[-1] * self.item
            if found != size:
                raise _refused(f"rows of {self.name} have another size", self.shape,
                               f"rows of {size} bytes")  # fmt: skip

    def at_least(self, size: int) -> None:
        """Raise UserValueError if there are known to be fewer bytes."""
        found = self.bytes
        if found is not None and found < size:
            raise _refused(f"{self.name} is too small", self.shape, f"{size} bytes or more")

    def exactly(self, size: int) -> None:
        """Raise UserValueError if there is known to be another number of bytes."""
        found = self.bytes
        if found is not None and found != size:
            raise _refused(f"{self.name} has another size", self.shape, f"{size} bytes")


def _refused(what: str, value: object, allowed: str) -> UserValueError:
    return UserValueError(
        f"{what} than the product was built for" if "another" in what else what,
        code="FLY-U911", value=value, allowed=allowed,
        hint="N, K and the types are fixed when the launcher is built",
    )  # fmt: skip


def _whole(value: Any) -> int | None:
    """Return an integer of any library as an int; None for run-time values."""
    if isinstance(value, int):
        return int(value)
    index = getattr(type(value), "__index__", None)
    if index is None or not type(value).__module__.startswith("numpy"):
        return None
    return int(index(value))


def check_call(plan: PreshufflePlan, values: Mapping[str, Any]) -> None:
    """Check the arguments of a launcher with preshuffled weights, as far as they are known.

    Args:
        plan: What the launcher is for.
        values: Its arguments by name: C, A, B, scale_a, scale_b, bias, M, N.

    Raises:
        UserValueError: N is another one, M negative, or an array's size does not fit.
    """
    m, n = _whole(values["M"]), _whole(values["N"])
    if n is not None and n != plan.n:
        raise _refused("N is another", n, str(plan.n))
    if m is not None and m < 0:
        raise _refused("M is negative", m, "0 and up")
    rows = m or 0
    stored = IN_DTYPES[plan.in_dtype][3]
    arrays = {name: Sizes(name, values[name]) for name in ("C", "A", "B")}
    arrays["A"].row(plan.a_pitch)
    arrays["A"].at_least(rows * plan.a_pitch)
    arrays["B"].exactly(plan.n * plan.k * stored // 8)
    size = _OUT_BYTES[plan.out_dtype]
    arrays["C"].element(size)
    arrays["C"].row(plan.n * size)
    arrays["C"].at_least(rows * plan.n * size)
    if plan.scaled:
        per_row = plan.k // _SHARED
        blocks = -(-rows // (2 * SIDE)) * 2 * SIDE
        Sizes("scale_a", values["scale_a"]).at_least(blocks * per_row)
        Sizes("scale_b", values["scale_b"]).exactly(plan.n * per_row)
    if plan.epilogue.scaled:
        for name, count in (("scale_a", rows), ("scale_b", plan.n)):
            scale = Sizes(name, values[name])
            scale.element(4)
            scale.at_least(count * 4)
    if plan.epilogue.bias:
        bias = Sizes("bias", values["bias"])
        bias.at_least(plan.n * (bias.item or 0))
