"""Weights of experts as the grouped products read them: `ExpertWeights`, `prepare_experts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl.ext.arguments import as_flag, as_text, check_arrays, check_fields, element_type
from flydsl_kernels.moe.arguments import padded
from flydsl_kernels.moe.formats import FORMATS, Format
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight, preshuffle_b

__all__ = ["ExpertWeights", "prepare_experts"]

GROUPS = (32, 64, 128)


@dataclass(frozen=True, slots=True, eq=False)
class ExpertWeights:
    """Weights of all experts in the order of a kernel, with their scales.

    Attributes:
        weight: The preshuffled stack; rows and columns are padded with zeros.
        scales: Scales in the order of the kernel, or None.
        format: Name of the format.
        channels: Channels of a result, without padding.
        k: Columns, without padding.
        gated: Whether half of the rows are gates.
        group: Columns that share a scale of 4-bit integers.
    """

    weight: PreshuffledWeight
    scales: Any
    format: str
    channels: int
    k: int
    gated: bool
    group: int = 128

    def __post_init__(self) -> None:
        check_fields(self)
        _check_format(self.format)
        check_arrays({"weight": self.weight.data}, scales=self.scales)
        numbers = FORMATS[self.format]
        if self.weight.layout != numbers.layout or self.weight.dtype not in numbers.weights:
            raise ConfigError(
                f"weights of {self.format} have another order or type", code="FLY-C975",
                value=(self.weight.layout, self.weight.dtype),
                allowed=f"{numbers.layout} of {', '.join(numbers.weights)}",
            )  # fmt: skip
        if not self.weight.batch or self.weight.n % self.halves or self.rows % numbers.rows:
            raise ConfigError(
                "weights of experts are a stack of one or more matrices of whole blocks of rows",
                code="FLY-C975", value=(self.weight.batch, self.weight.n),
                allowed=f"multiples of {self.halves * numbers.rows} rows",
            )  # fmt: skip
        if self.weight.k % _columns(numbers):
            raise ConfigError(
                "the columns of weights are no whole steps", code="FLY-C975",
                value=self.weight.k, allowed=f"multiples of {_columns(numbers)}",
                hint="prepare_experts pads them",
            )  # fmt: skip
        if not 1 <= self.channels <= self.rows or not 1 <= self.k <= self.weight.k:
            raise ConfigError(
                "the weights do not have the rows and columns of the product", code="FLY-C975",
                value=(self.channels, self.k), allowed=f"1 to {self.rows}, 1 to {self.weight.k}",
            )  # fmt: skip

    @property
    def experts(self) -> int:
        """Number of experts."""
        return int(self.weight.batch or 0)

    @property
    def halves(self) -> int:
        """2 with gates, else 1."""
        return 2 if self.gated else 1

    @property
    def rows(self) -> int:
        """Rows of the gates, or of all, with padding."""
        return self.weight.n // self.halves

    @property
    def numbers(self) -> Format:
        """The format."""
        return FORMATS[self.format]


def _check_format(name: str) -> None:
    """Raise ConfigError unless there is a format of this name."""
    if as_text(name, "format") not in FORMATS:
        raise ConfigError("there is no such format", code="FLY-C975", value=name,
                          allowed=", ".join(FORMATS))  # fmt: skip


def _columns(numbers: Format) -> int:
    """Return what the columns of weights are padded to a multiple of."""
    return 256 if numbers.w_scale == "mx" else numbers.tile_k


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _halved(array: Any, halves: int) -> Any:
    """Return (E, N, …) as (E, halves, N / halves, …)."""
    return array.reshape((int(array.shape[0]), halves, int(array.shape[1]) // halves,
                          *array.shape[2:]))  # fmt: skip


@at_user_line()
def prepare_experts(
    w: Any, *, format: str, gated: bool = False, scales: Any = None, dtype: Any = None
) -> ExpertWeights:  # fmt: skip
    """Rearrange the weights of experts once for the grouped products.

    Args:
        w: (E, N, K) weights. With `gated` the first half of the rows are the gates. 4-bit integers
            are int8 numbers of -8 to 7; fp4 is bytes (E, N, K / 2) of two codes, the lower nibble
            first.
        format: One of `FORMATS`.
        gated: Whether half of the rows are gates.
        scales: What the weights are multiplied by: (E, N) float32 for ``fp8``, ``int8`` and
            ``int8_int4``; (E, N / 128, K / 128) float32 for ``fp8_block``, rounded up; (E, N, K /
            group) float32 for ``bf16_int4``; (E, N, K / 32) E8M0 bytes for the formats with mxfp4.
        dtype: Element type of the weights where the array's own says less, by name or as NumPy or
            PyTorch have it.

    Raises:
        ConfigError: An unknown format; weights or scales that do not fit it.
    """
    check_arrays({"w": w}, scales=scales)
    _check_format(format)
    gated = as_flag(gated, "gated")
    dtype = None if dtype is None else element_type(dtype, "dtype")
    numbers = FORMATS[format]
    halves = 2 if gated else 1
    packed = 2 if numbers.layout == "fp4_16lane" else 1
    if w.ndim != 3 or 0 in w.shape or int(w.shape[1]) % halves:
        raise ConfigError("weights are (E, N, K), with gates of an even N", code="FLY-C975",
                          value=tuple(w.shape), allowed="from one expert on")  # fmt: skip
    channels, k = int(w.shape[1]) // halves, int(w.shape[2]) * packed
    _check_scales(scales, numbers, (int(w.shape[0]), int(w.shape[1]), k), channels, gated)
    rows, columns = _round_up(channels, numbers.rows), _round_up(k, _columns(numbers))
    whole = padded(_halved(w, halves), (rows, columns // packed))
    stack = whole.reshape((int(w.shape[0]), halves * rows, columns // packed))
    kind = arrays.dtype_name(w)
    if kind not in numbers.weights:
        kind = dtype or numbers.weights[0]
    if dtype not in (None, kind) or kind not in numbers.weights:
        raise ConfigError(f"weights of {format} are not of this type", code="FLY-C975",
                          value=dtype, allowed=", ".join(numbers.weights))  # fmt: skip
    weight = preshuffle_b(stack, layout=numbers.layout, dtype=kind)
    group = 128
    if numbers.w_scale == "group":
        group = k // int(scales.shape[2])
    placed = _placed_scales(scales, numbers, halves, (rows, columns, group))
    return ExpertWeights(weight, placed, format, channels, k, gated, group)


def _check_scales(
    scales: Any, numbers: Format, shape: tuple[int, int, int], channels: int, gated: bool
) -> None:
    experts, n, k = shape
    shapes: dict[str, list[tuple[int, ...]]] = {
        "none": [],
        "channel": [(experts, n)],
        "block": [(experts, -(-n // 128), -(-k // 128))],
        "group": [(experts, n, k // group) for group in GROUPS if k % group == 0],
        "mx": [(experts, n, k // 32)] if k % 32 == 0 else [],
    }
    allowed = shapes[numbers.w_scale]
    found = None if scales is None else tuple(int(extent) for extent in scales.shape)
    if numbers.w_scale == "none" and scales is None:
        return
    if found not in allowed:
        raise ConfigError(
            f"weights of {numbers.name} have scales of another shape", code="FLY-C976",
            value=found, allowed=" or ".join(map(str, allowed)) or "none",
            hint="a group of columns divides K" if numbers.w_scale in ("group", "mx") else "",
        )  # fmt: skip
    wanted = ("uint8", "float8_e8m0fnu") if numbers.w_scale == "mx" else ("float32",)
    if arrays.dtype_name(scales) not in wanted:
        raise ConfigError("the scales have another type", code="FLY-C976",
                          value=arrays.dtype_name(scales), allowed=", ".join(wanted))  # fmt: skip
    if numbers.w_scale == "block" and gated and channels % 128:
        raise ConfigError("a block of scales has both gates and gated rows", code="FLY-C976",
                          value=channels, allowed="multiples of 128")  # fmt: skip


def _placed_scales(
    scales: Any, numbers: Format, halves: int, extents: tuple[int, int, int]
) -> Any:  # fmt: skip
    """Return scales in the order of the kernel."""
    rows, columns, group = extents
    if scales is None:
        return None
    experts = int(scales.shape[0])
    if numbers.w_scale == "channel":
        return padded(_halved(scales, halves), (rows,)).reshape(experts, halves * rows)
    if numbers.w_scale == "block":
        shape = rows // 128, columns // 128
        return arrays.contiguous(padded(_halved(scales, halves), shape)).reshape(
            experts, halves * shape[0], shape[1]
        )
    if numbers.w_scale == "group":
        whole = padded(_halved(scales, halves), (rows, _round_up(columns, group) // group))
        whole = whole.reshape(experts, halves * rows, whole.shape[-1])
        swapped = whole.permute(0, 2, 1) if arrays.is_torch(whole) else whole.transpose(0, 2, 1)
        return arrays.contiguous(swapped)
    from flydsl_rocdl.kernels.preshuffle import preshuffle_scales

    codes = arrays.as_bytes(scales)
    whole = padded(_halved(codes, halves), (rows, columns // 32))
    return preshuffle_scales(whole.reshape(experts, halves * rows, columns // 32))
