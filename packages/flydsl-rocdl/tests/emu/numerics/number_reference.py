"""References for numbers: classes, their bits, edge values, exact conversion and arithmetic.

Conversions are computed with NumPy's 80-bit floats, in which every value of every class but the
128-bit integers is exact, and rounded once; ml_dtypes is asked where it rounds once too.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import flydsl.expr as fx
from flydsl.expr.numeric import FORMATS

FLOATS: dict[str, Any] = {
    "Float64": np.float64,
    "Float32": np.float32,
    "Float16": np.float16,
    "BFloat16": ml_dtypes.bfloat16,
    "Float8E5M2": ml_dtypes.float8_e5m2,
    "Float8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "Float8E4M3": ml_dtypes.float8_e4m3,
    "Float8E4M3FN": ml_dtypes.float8_e4m3fn,
    "Float8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "Float8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "Float8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "Float6E2M3FN": ml_dtypes.float6_e2m3fn,
    "Float6E3M2FN": ml_dtypes.float6_e3m2fn,
    "Float4E2M1FN": ml_dtypes.float4_e2m1fn,
}
INTEGERS: dict[str, Any] = {
    "Boolean": np.bool_,
    "Int4": ml_dtypes.int4,
    "Int8": np.int8,
    "Int16": np.int16,
    "Int32": np.int32,
    "Int64": np.int64,
    "Uint8": np.uint8,
    "Uint16": np.uint16,
    "Uint32": np.uint32,
    "Uint64": np.uint64,
    "Index": np.uint64,
}
CLASSES = {**FLOATS, **INTEGERS}
LONG = np.longdouble
assert np.finfo(LONG).nmant >= 63


def kind(name: str) -> Any:
    """Return the numeric class."""
    return getattr(fx, name)


def container(name: str) -> Any:
    """Return the unsigned NumPy type that holds the bits of one number."""
    return np.dtype(f"u{max(kind(name).width, 8) // 8}" if kind(name).width != 6 else "u1")


def decoded(name: str, codes: Any) -> Any:
    """Return the numbers (NumPy or ml_dtypes) that codes stand for."""
    width = kind(name).width
    if name == "Boolean":
        return (codes & 1).astype(np.bool_)
    if name == "Int4":
        return ((codes.astype(np.int8) << 4) >> 4).astype(np.int8)
    if width < 8:
        codes = codes & ((1 << width) - 1)
    return codes.astype(container(name)).view(CLASSES[name])


def encoded(name: str, numbers: Any) -> Any:
    """Return the codes of numbers of a class as 64-bit integers."""
    if name in ("Boolean", "Int4"):
        return numbers.astype(np.uint8).astype(np.uint64) & ((1 << kind(name).width) - 1)
    return numbers.view(container(name)).astype(np.uint64)


def patterns(name: str, count: int, seed: int) -> Any:
    """Return `count` codes: edge values, neighbours of ties of narrow formats, random bits."""
    rng = np.random.default_rng(seed)
    width = kind(name).width
    if width <= 8:
        return np.resize(np.arange(1 << width, dtype=np.uint64), count)
    random = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False)
    random = random >> np.uint64(64 - width)
    if kind(name).is_integer:
        # Half of them of random length, since most random ones are long.
        shift = rng.integers(0, width, count // 2).astype(np.uint64)
        random[: count // 2] >>= shift
        tops = [(1 << k) + d for k in range(width) for d in (-1, 0, 1)]
        ties = [(3 << k) + d for k in range(width - 2) for d in (-1, 0, 1)]
        edges = np.array([v & ((1 << width) - 1) for v in [*tops, *ties, 0]], dtype=np.uint64)
        edges = np.concatenate([edges, (~edges + 1) & ((1 << width) - 1)])
    else:
        edges = _float_edges(name)
        moderate = rng.normal(0, 1, count // 3) * 2.0 ** rng.integers(-20, 20, count // 3)
        with np.errstate(all="ignore"):
            random[: count // 3] = encoded(name, moderate.astype(CLASSES[name]))
    edges = edges[: count // 2]
    random[-len(edges) :] = edges
    return random


def _float_edges(name: str) -> Any:
    """Codes around every value and tie of the 8-bit formats, powers of two and the specials."""
    dtype = CLASSES[name]
    small = np.unique(
        np.concatenate(
            [
                np.arange(1 << FORMATS[kind(k).ir_text].width, dtype=np.uint8)
                .view(FLOATS[k])
                .astype(np.float64)
                for k in ("Float8E5M2", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E4M3B11FNUZ")
            ]
        )
    )
    small = small[np.isfinite(small)]
    ties = (small[1:] + small[:-1]) / 2
    powers = 2.0 ** np.arange(-160, 160)
    extra = [0.0, -0.0, np.inf, -np.inf, np.nan, 57344.0, 61440.0, 65519.99, 65520.0, 464.0, 248.0,
             31.0, 3.4e38, -3.4e38, 5.0, 7.0, 0.25, 29.0, 30.0, 7.75, 1.5 * 2.0**127]  # fmt: skip
    values = np.concatenate([extra, ties, small, powers, 1.5 * powers, -powers])
    with np.errstate(all="ignore"):
        codes = encoded(name, values.astype(dtype))
    step = np.uint64(1)
    return np.unique(np.concatenate([codes, codes + step, codes - step])) & np.uint64(
        (1 << kind(name).width) - 1
    )


def exact(name: str, codes: Any) -> Any:
    """Return the values of codes as 80-bit floats, exactly."""
    numbers = decoded(name, codes)
    with np.errstate(all="ignore"):
        if name in FLOATS and name != "Float64":
            numbers = numbers.astype(np.float64)
        values = numbers.astype(LONG)
    if name.endswith("FNUZ"):  # their NaN has no sign, though its code looks like it
        values = np.where(np.isnan(values), LONG("nan"), values)
    return values


def rounded(name: str, values: Any, mode: str = "to_nearest_even") -> Any:
    """Return 80-bit floats as values (80-bit) of a float class, rounded once."""
    form = FORMATS[kind(name).ir_text]
    with np.errstate(all="ignore"):
        size = np.abs(values)
        _, exponent = np.frexp(size)
        least = -form.bias if form.specials == "scale" else 1 - form.bias
        last = np.maximum(exponent - 1, least) - form.mantissa_bits
        scaled = np.ldexp(values, -last)
        whole = {
            "to_nearest_even": np.rint,
            "downward": np.floor,
            "upward": np.ceil,
            "toward_zero": np.trunc,
            "to_nearest_away": lambda v: np.copysign(np.floor(np.abs(v) + LONG(0.5)), v),
        }[mode](scaled)
        if form.specials == "scale" and mode == "to_nearest_even":
            whole = np.floor(scaled + LONG(0.5))
        out = np.where(np.isfinite(values), np.ldexp(whole, last), values)
        out = np.copysign(out, values)
        largest = LONG(form.largest)
        beyond = {"ieee": np.inf, "finite": largest}.get(form.specials, np.nan)
        over = np.abs(out) > largest
        finite = np.isfinite(values)
        inward = {
            "toward_zero": finite,
            "downward": finite & (values > 0),
            "upward": finite & (values < 0),
        }.get(mode, np.zeros_like(finite))
        out = np.where(over, np.copysign(np.where(inward, largest, LONG(beyond)), out), out)
        if form.specials == "scale":
            out = np.maximum(out, LONG(2.0) ** -127)
            out = np.where(values > 0, out, np.nan)
        elif form.specials == "finite":
            out = np.where(np.isnan(values), np.copysign(largest, values), out)
        elif form.specials == "fnuz":
            out = np.where(out == 0, LONG(0), out)
    return out


def converted(source: str, target: str, codes: Any) -> tuple[Any, Any]:
    """Return (codes that the conversion gives, where it is defined)."""
    values = exact(source, codes)
    defined = np.ones(len(codes), bool)
    width = kind(target).width
    if target in FLOATS:
        with np.errstate(all="ignore"):
            found = rounded(target, values)
            bits = encoded(target, found.astype(np.float64).astype(FLOATS[target]))
            return bits, defined
    if target == "Boolean":
        return (values != 0).astype(np.uint64), defined
    if source in FLOATS:
        signed = kind(target).signed
        low = LONG(2.0) ** (width - 1) if signed else LONG(0)
        high = LONG(2.0) ** (width - signed)
        whole = np.trunc(values)
        defined = np.isfinite(values) & (whole >= -low) & (whole < high)
        whole = np.where(defined, whole, 0)
        negative = whole < 0
        bits = np.abs(whole).astype(np.uint64)
        bits = np.where(negative, ~bits + np.uint64(1), bits)
    else:
        numbers = decoded(source, codes)
        bits = numbers.astype(np.int64 if kind(source).signed else np.uint64).astype(np.uint64)
    return bits & np.uint64((1 << width) - 1), defined


def differing(name: str, found: Any, wanted: Any) -> Any:
    """Return where two arrays of codes differ; NaNs are equal."""
    mask = np.uint64((1 << kind(name).width) - 1)
    different = (found & mask) != (wanted & mask)
    if name in FLOATS and FORMATS[kind(name).ir_text].specials != "finite":
        with np.errstate(all="ignore"):
            a, b = (decoded(name, v).astype(np.float64) for v in (found, wanted))
        different &= ~(np.isnan(a) & np.isnan(b))
    return different


def disagreeing(source: str, target: str, codes: Any, found: Any) -> Any:
    """Return positions of conversions whose results are wrong.

    Where the value of an integer class is undefined, anything is right; so is either sign of the
    number that stands for NaN in a format without one.
    """
    wanted, defined = converted(source, target, codes)
    wrong = differing(target, found, wanted) & defined
    if target in FLOATS and FORMATS[kind(target).ir_text].specials == "finite":
        size = np.uint64((1 << (kind(target).width - 1)) - 1)
        wrong &= ~(np.isnan(exact(source, codes)) & ((found & size) == (wanted & size)))
    return np.nonzero(wrong)[0]


def packed(name: str, codes: Any) -> Any:
    """Return codes as a kernel reads them: those of 4 and 6 bits packed, four to two or three."""
    width = kind(name).width
    if width not in (4, 6):
        return codes
    groups = codes.reshape(-1, 4) & np.uint64((1 << width) - 1)
    word = sum(groups[:, k] << np.uint64(width * k) for k in range(4))
    parts = [word >> np.uint64(8 * k) & np.uint64(255) for k in range(4)]
    return np.stack(parts, 1).reshape(-1)


def unpacked(name: str, stored: Any) -> Any:
    """Undo `packed` on what a kernel has written."""
    width = kind(name).width
    if width not in (4, 6):
        return stored
    groups = stored.reshape(-1, 4)
    word = sum(groups[:, k] << np.uint64(8 * k) for k in range(width // 2))
    parts = [word >> np.uint64(width * k) & np.uint64((1 << width) - 1) for k in range(4)]
    return np.stack(parts, 1).reshape(-1)


def read(name: str, x: Any, i: Any) -> Any:
    """In a kernel: return four numbers of a class as a vector, from codes as `packed` has them."""
    chosen = kind(name)
    if chosen.width in (4, 6):
        parts = [x[4 * i + k].to(fx.Uint8) for k in range(chosen.width // 2)]
        return fx.Vector.from_elements(parts).bitcast(chosen)
    items = [x[4 * i + k] for k in range(4)]
    if chosen is fx.Boolean:
        return fx.Vector.from_elements([(item & 1).to(chosen) for item in items])
    if chosen.is_integer:
        return fx.Vector.from_elements([item.to(chosen) for item in items])
    return fx.Vector.from_elements([item.bitcast(chosen) for item in items])


def write(name: str, vector: Any, out: Any, row: int, i: Any) -> None:
    """In a kernel: store the codes of four numbers in 64-bit elements of a row."""
    chosen = kind(name)
    if chosen.width in (4, 6):
        codes = vector.bitcast(fx.Uint8)
    elif chosen is fx.Boolean or chosen.is_index:
        codes = vector
    else:
        codes = vector.bitcast(getattr(fx, f"Uint{chosen.width}"))
    for k in fx.range_constexpr(codes.numel):
        out[row, 4 * i + k] = codes[k].to(fx.Uint64)


def static(cls: Any, code: int) -> Any:
    """Return the static number with a code."""
    if cls.format is not None:
        return cls.static(cls.format.decode(code))
    if cls.width == 1:
        return cls.static(bool(code))
    return cls.static(code - (1 << cls.width) if cls.signed and code >> (cls.width - 1) else code)


def code(number: Any) -> int:
    """Return the code of a static number."""
    cls = type(number)
    bits = number.value if cls.format is None else cls.format.encode(number.value)
    return int(bits) & ((1 << cls.width) - 1)
