"""Numbers and streams as launcher arguments."""

from __future__ import annotations

import functools
import math
import operator
from numbers import Integral, Real
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.annotations import Stream, device_of
from flydsl.expr.numeric import Boolean, Float, Float32, Int32, Numeric
from flydsl.plugins.payloads import ArgLeaf, ArgSpec, NativeRead

__all__ = ["describe_number", "describe_stream"]

_INTEGER_FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}
_FLOAT_FORMATS = {"f16": "e", "f32": "f", "f64": "d"}


def describe_number(value: object, annotation: type[Numeric] | None) -> ArgSpec | None:
    """Return the specification of a number, or None if `value` is none.

    Args:
        value: A Python number, a static `Numeric`, or a library's scalar.
        annotation: The numeric class that the parameter asks for; None takes the class of the
            value: `Boolean`, `Int32` or `Float32`.

    Raises:
        UserTypeError: The value is no number of the wanted kind, or the class cannot be passed.
        UserValueError: The value is outside the range of the class.
    """
    static = isinstance(value, Numeric)
    number: Any = value.value if isinstance(value, Numeric) else value
    wanted = annotation or (type(value) if isinstance(value, Numeric) else _natural(number))
    if wanted is None:
        return None
    if issubclass(wanted, Float):
        return _float(value, number, wanted, "v.value" if static else "v")
    return _integer(value, number, wanted, "v.value" if static else "v")


def _natural(number: object) -> type[Numeric] | None:
    if isinstance(number, bool) or _is_library_bool(number):
        return Boolean
    if isinstance(number, Integral):
        return Int32
    return Float32 if isinstance(number, Real) else None


def _is_library_bool(value: Any) -> bool:
    """Whether `value` is NumPy's truth value, which is neither a bool nor an integer."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind == "b" and value.shape == () and not hasattr(value, "__setitem__")


def _mismatch(value: object, wanted: type[Numeric], accepted: str) -> UserTypeError:
    return UserTypeError(
        f"a parameter of type {wanted!r} was given a {type(value).__name__}",
        code="FLY-U404",
        value=value,
        allowed=accepted,
    )


def _unpassable(wanted: type[Numeric]) -> UserTypeError:
    return UserTypeError(
        f"a value of type {wanted!r} cannot be passed to a launcher",
        code="FLY-U405",
        allowed="Boolean, integers of 8 to 64 bits, floats of 8 to 64 bits",
    )


def _integer(value: object, number: Any, wanted: type[Numeric], read: str) -> ArgSpec:
    if wanted is Boolean and _is_library_bool(number):
        number, read = bool(number), f"bool({read})"
    if isinstance(number, float) or not hasattr(type(number), "__index__"):
        raise _mismatch(value, wanted, "an int")
    try:
        plain = operator.index(number)
    except (TypeError, RuntimeError, ValueError) as error:
        # A library's tensor has __index__ but need not be an integer, or one that fits in 64 bits.
        raise _mismatch(value, wanted, "an int") from error
    signed = wanted.signed and wanted is not Boolean
    if wanted is Boolean:
        code, text, low, high = "B", "i1", 0, 1
    else:
        if wanted.width not in _INTEGER_FORMATS or wanted.ir_text == "index":
            raise _unpassable(wanted)
        code = _INTEGER_FORMATS[wanted.width]
        code = code if signed else code.upper()
        text = f"{'' if signed else 'u'}{wanted.ir_text}"
        low = -(1 << wanted.width - 1) if signed else 0
        high = (1 << wanted.width - signed) - 1
    if not low <= plain <= high:
        wider = "" if wanted.width == 64 else "annotate the parameter with a wider type, "
        raise UserValueError(
            f"{plain} is outside the range of {wanted!r}",
            code="FLY-U406",
            value=plain,
            allowed=f"{low} to {high}",
            hint=f"{wider}or check the value",
        )
    names: dict[str, object] = {"kind": type(value)}
    guard = "type(v) is kind"
    if type(number) is not int and type(number) is not bool:
        read = f"index({read})"
        names["index"] = operator.index
    if wanted is Boolean and "bool(" not in read:
        # The format has room for more.
        guard += f" and 0 <= {read} <= 1"
    native = None
    if read in ("v", "v.value"):
        native = NativeRead("integer", type(value), read.partition(".")[2])
    return ArgSpec(
        key=("number", text),
        ir_type=text,
        leaves=(ArgLeaf(code, read, low, high),),
        guard=guard,
        names=names,
        native=native,
    )


def _fits(form: Any, value: float) -> bool:
    """Whether a finite value rounds to a finite one of the format."""
    rounded = form.round(value)
    return math.isfinite(rounded) and abs(rounded) <= form.largest


@functools.lru_cache(maxsize=64)
def _limit(form: Any) -> float:
    """Return the smallest positive double that does not fit a format narrower than double."""
    low: float = form.largest
    high = 2.0 * low
    while (middle := low + (high - low) / 2) not in (low, high):
        low, high = (middle, high) if _fits(form, middle) else (low, middle)
    return high


def _float(value: object, number: Any, wanted: type[Numeric], read: str) -> ArgSpec:
    if isinstance(number, (bool, complex, str, bytes)) or not hasattr(type(number), "__float__"):
        raise _mismatch(value, wanted, "a float or an int")
    form = wanted.format
    if form is None or form.width not in (8, 16, 32, 64):
        raise _unpassable(wanted)
    allowed = f"finite values up to {form.largest} in magnitude, infinities and NaN"
    try:
        plain = float(number)
    except OverflowError as error:
        raise UserValueError(
            f"this number is outside the range of {wanted!r}",
            code="FLY-U406",
            value=value,
            allowed=allowed,
        ) from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise _mismatch(value, wanted, "a float or an int") from error
    if math.isfinite(plain) and not _fits(form, plain):
        raise UserValueError(
            f"{plain} is outside the range of {wanted!r}",
            code="FLY-U406",
            value=plain,
            allowed=allowed,
        )
    names: dict[str, object] = {"kind": type(value)}
    if type(number) is not float and type(number) is not int:
        read = f"float({read})"
    source = read
    code = _FLOAT_FORMATS.get(wanted.ir_text)
    if code is None:
        # Python packs no bfloat16 or 8-bit floats: pass the bits, rounded to nearest even.
        names["encode"] = form.encode
        code = "H" if form.width == 16 else "B"
        read = f"encode({read})"
    native = None
    if type(number) is float and code in ("f", "d"):
        native = NativeRead("float", type(value), read.partition(".")[2])
    guard = "type(v) is kind"
    if form.width < 64:
        # Packing as a C float makes an infinity of what is too large.
        names["limit"] = _limit(form)
        guard += f" and (-limit < {source} < limit or {source} - {source} != 0)"
    return ArgSpec(
        key=("number", wanted.ir_text),
        ir_type=wanted.ir_text,
        leaves=(ArgLeaf(code, read),),
        guard=guard,
        names=names,
        native=native,
    )


def describe_stream(value: Any) -> ArgSpec:
    """Return the specification of a stream: None, a handle, or an object with one.

    None means the stream that is current in the runtime at the launch.

    Raises:
        UserTypeError: The value is none of these.
        UserValueError: The handle is negative or has more than 64 bits.
    """
    names: dict[str, object] = {"kind": type(value)}
    native = None
    held: Any = None
    guard, device = "type(v) is kind", -1
    if value is None:
        read = "current_stream()"
        native = NativeRead("current-stream", type(None))
    elif type(value) is int:
        read, held = "v", value
        native = NativeRead("integer", int)
    elif hasattr(value, "cuda_stream"):
        read, held = "v.cuda_stream", value.cuda_stream
        device = device_of(value)
        if device < 0:
            native = NativeRead("attribute", type(value), "cuda_stream")
        elif hasattr(value, "device_index"):
            guard += f" and getattr(v, 'device_index', None) == {device}"
            native = NativeRead(
                "attribute", type(value), "cuda_stream", "device_index", device=device
            )
        else:
            guard += f" and getattr(getattr(v, 'device', None), 'index', None) == {device}"
    elif isinstance(value, Stream):
        # What it holds may differ from call to call.
        held = value.value
        read = "(current_stream() if v.value is None else v.value)"
        device = value.place - 1
        guard += f" and v.place == {value.place}"
        native = NativeRead("attribute", type(value), "value", "place", device=value.place)
    else:
        raise UserTypeError(
            "a stream parameter was given something that is no stream",
            code="FLY-U407",
            value=value,
            allowed="None, an integer handle, fx.Stream, or an object with .cuda_stream",
        )
    if held is not None or read == "v.cuda_stream":
        _check_handle(held)
    return ArgSpec(
        key=("stream",),
        ir_type="stream",
        leaves=(ArgLeaf("Q", read),),
        guard=guard,
        names=names,
        stream_device=device,
        native=native,
    )


def _check_handle(handle: object) -> None:
    """Refuse what is no 64-bit handle."""
    if not isinstance(handle, int):
        raise UserTypeError(
            "a stream's handle is no integer",
            code="FLY-U407",
            value=handle,
            allowed="the integer that the device's library uses for the stream",
        )
    if not 0 <= handle < 1 << 64:
        raise UserValueError(
            "a stream's handle is outside the range of handles",
            code="FLY-U407",
            value=handle,
            allowed="0 to 2**64 - 1",
            hint="pass None for the current stream",
        )
