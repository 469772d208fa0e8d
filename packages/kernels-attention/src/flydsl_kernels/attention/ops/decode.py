"""From the arguments of `paged_attention_decode` to launches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import as_integer, check_fields, is_finite, is_number
from flydsl_kernels.attention.arrays import address, check_some_page, indices, layout_of
from flydsl_kernels.attention.decoding import WAVES, DecodePlan, DecodeProblem, select_decode
from flydsl_kernels.attention.rotary import CACHE_LAYOUTS
from flydsl_rocdl.arch import ArchFacts, lookup

__all__ = [
    "LOG2_E",
    "DecodeOptions",
    "cache_unit",
    "check_pages",
    "decode_output",
    "decode_queries",
    "own_facts",
    "part_slots",
    "run_decode",
    "work_arrays",
]

__flydsl_internal__ = True  # errors are at the line of the caller

LOG2_E = 1.0 / math.log(2.0)
_WORKGROUPS = 608
"""Workgroups that keep a device busy: two for each of 304 compute units."""
_SMALL = 4096
"""Entries of a table of pages that are read in little time."""
_LARGEST = (2.0 - 2.0**-23) * 2.0**127
"""The largest number of f32."""
_LEAST_KEYS = 512
"""Keys of a part, a multiple of all steps: the f32 results of smaller parts would be more than 2 %
of what 8 rows read."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """The options of `paged_attention_decode`.

    Raises:
        UserTypeError: One of them is of another kind.
        UserValueError: One of them is out of range, or no name of a layout.
    """

    softmax_scale: float | None = None
    window: int | None = None
    cache_layout: str = "linear"
    partitions: int | None = None
    return_lse: bool = False

    def __post_init__(self) -> None:
        scale = self.softmax_scale
        if scale is not None and not (is_finite(scale) and scale > 0):
            raise UserValueError(
                "the scale of scores is a finite positive number",
                code="FLY-U943",
                value=scale,
                allowed="positive numbers",
            )
        for name, value in (("window", self.window), ("partitions", self.partitions)):
            low = 0 if name == "window" else 1
            if value is not None and not low <= as_integer(value, name) < 1 << 31:
                raise UserValueError(
                    f"{name} is out of range",
                    code="FLY-U964",
                    value=value,
                    allowed=f"{low} to 2^31 - 1, or None",
                )
        check_fields(self)
        if self.cache_layout not in CACHE_LAYOUTS:
            raise UserValueError(
                "there is no cache layout of this name",
                code="FLY-U959",
                value=self.cache_layout,
                allowed=", ".join(CACHE_LAYOUTS),
            )


@lru_cache(maxsize=256)
def _extents(
    keys: tuple[int, ...], values: tuple[int, ...], layout: str
) -> tuple[int, int, tuple[int, int]]:
    """Return what shapes of caches say: heads, tokens per page, elements of keys and of values.

    Raises:
        UserValueError: One has another number of axes than its layout.
    """
    axes = 4 if layout == "linear" else 5
    for shape, what, rank in (
        (keys, "keys", axes),
        (values, "values", 4 if layout == "transposed" else axes),
    ):
        if len(shape) != rank:
            raise UserValueError(
                f"the cache of {what} has another shape than its layout",
                code="FLY-U960",
                value=tuple(shape),
                allowed=f"{rank} axes for {layout!r}",
            )
    if layout == "linear":
        return keys[2], keys[1], (keys[3], values[-1])
    return keys[1], keys[3], (keys[2] * keys[4], values[3 if layout == "vectorised" else 2])


@lru_cache(maxsize=256)
def _wanted(
    pages: int, page: int, heads: int, widths: tuple[int, int], layout: str, block: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes that caches have to have."""
    d_qk, d_v = widths
    if layout == "linear":
        return (pages, page, heads, d_qk), (pages, page, heads, d_v)
    blocked = (pages, heads, page // block, d_v, block)
    flat = (pages, heads, d_v, page)
    return (
        (pages, heads, d_qk // block, page, block),
        blocked if layout == "vectorised" else flat,
    )


@lru_cache(maxsize=256)
def _adjacent(step: tuple[int, ...], block: int) -> bool:
    """Return whether strides are multiples of a block but for the last one, which is 1."""
    return step[-1] == 1 and not any(s % block for s in step[:-1])


def _check_caches(key_cache: Any, value_cache: Any, problem: DecodeProblem, heads: int) -> None:
    """Check shapes and alignment of the caches.

    Raises:
        UserValueError: They do not fit the layout, or vectors of them are not aligned.
    """
    pages, block = int(key_cache.shape[0]), 16 // key_cache.itemsize
    widths = (problem.d_qk, problem.d_v)
    wanted = _wanted(pages, problem.page, heads, widths, problem.layout, block)
    for cache, shape, what in zip(
        (key_cache, value_cache), wanted, ("key_cache", "value_cache"), strict=True
    ):
        arrays.check_shape(cache, shape, what)
        step = arrays.strides(cache)
        if not _adjacent(step, block) or address(cache) % 16:
            raise UserValueError(
                f"vectors of {what} are not aligned",
                code="FLY-U965",
                value=step,
                allowed=f"a last stride of 1, others multiples of {block}, 16-byte alignment",
            )


def _scale(scale: Any, like: Any, shape: tuple[int, int, int], what: str) -> tuple[Any, bool]:
    """Return a unit of the cache as an f32 array, and whether there is one per token."""
    if scale is None or is_number(scale):
        if scale is not None and not is_finite(scale):
            raise UserValueError(f"{what} is not finite", code="FLY-U962", value=scale)
        return _unit(1.0 if scale is None else float(scale), like), False
    arrays.check_same_library(scale, like, what)
    arrays.check_dtype(scale, ("float32",), what)
    if len(scale.shape) == 3:
        arrays.check_shape(scale, shape, what)
        return arrays.contiguous(scale), True
    flat = scale.reshape(-1)
    arrays.check_shape(flat, (1,), what)
    return flat, False


def _unit(number: float, like: Any) -> Any:
    """Return a number as f32 [1]; one that is too large for f32 is infinite."""
    if arrays.is_torch(like) and abs(number) <= _LARGEST:
        import torch

        # Not minus zero.
        return torch.full((1,), number + 0.0, dtype=torch.float32, device=like.device)
    return arrays.zeros((1,), "float32", like) + number


def _scales(
    scales: tuple[Any, Any], like: Any, shape: tuple[int, int, int]
) -> tuple[Any, Any, bool]:
    """Return both units, of the same kind, and whether they are per token."""
    if scales[0] is None and scales[1] is None:
        unit = _unit(1.0, like)
        return unit, unit, False
    (key, per_key), (value, per_value) = (
        _scale(scale, like, shape, what)
        for scale, what in zip(scales, ("k_scale", "v_scale"), strict=True)
    )
    if per_key == per_value:
        return key, value, per_key
    spread = arrays.zeros(shape, "float32", like)
    return (key, value + spread, True) if per_key else (key + spread, value, True)


# By types too: what equals a name or a number may be of a class of its own.
_problem = lru_cache(maxsize=256, typed=True)(DecodeProblem)


@lru_cache(maxsize=256)
def _plan(problem: DecodeProblem, arch: str) -> DecodePlan:
    return select_decode(problem, lookup(arch))


def run_decode(
    q: Any,
    cache: tuple[Any, Any],
    where: tuple[Any, Any],
    scales: tuple[Any, Any],
    options: DecodeOptions,
    out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Decode without PyTorch's knowledge; see `paged_attention_decode`.

    Args:
        q: Queries.
        cache: key_cache, value_cache.
        where: block_table, seqlens.
        scales: k_scale, v_scale.
        options: The others.
        out: Where to write the result.
        stream: Where to launch.

    Returns:
        The result and the logarithms of the sums, which are None unless asked for.
    """
    from flydsl_kernels.attention.device.decode import DecodeArguments, launch_decode
    from flydsl_kernels.attention.device.decode_reduce import ReduceArguments, launch_reduce
    from flydsl_kernels.attention.device.decode_work import Work, launch_work

    if out is not None:
        q, *read = arrays.apart_from((out,), q, *cache, *where)
        cache, where = (read[0], read[1]), (read[2], read[3])
    queries = decode_queries(q)
    count, length, heads, width = queries.shape
    for array, what in zip(cache, ("key_cache", "value_cache"), strict=True):
        arrays.check_same_library(array, q, what)
    kind = arrays.dtype_name(cache[0])
    arrays.check_dtype(cache[1], (kind,), "value_cache")
    kv_heads, page, widths = _extents(cache[0].shape, cache[1].shape, options.cache_layout)
    _check_heads(heads, kv_heads)
    arrays.check_shape(queries, (count, length, heads, widths[0]), "q")
    scale_k, scale_v, per_token = _scales(scales, q, (int(cache[0].shape[0]), kv_heads, page))
    problem = _problem(
        arrays.dtype_name(q), kind, heads // kv_heads, max(length, 1), *widths, page,
        options.cache_layout, per_token, options.window is not None,
    )  # fmt: skip
    _check_caches(*cache, problem, kv_heads)
    table = indices(where[0], (count, -1), q, "block_table")
    lengths = indices(where[1], (count,), q, "seqlens")
    check_pages(table, lengths, page, int(cache[0].shape[0]))
    result = decode_output(out, q, (*q.shape[:-1], widths[1]), problem.dtype)
    lse = arrays.empty((count, heads, length), "float32", q) if options.return_lse else None
    if not (count and length and heads):
        return result, lse
    plan = _plan(problem, own_facts(q).name)
    target = result
    if out is not None or len(result.shape) == 3:
        target = result.reshape(count, length, heads, widths[1])
    least = max(WAVES * plan.step, _LEAST_KEYS)
    slots = part_slots(options, count, kv_heads, -(-int(table.shape[1]) * page // least))
    most = min(int(table.shape[1]) * page, (1 << 31) - 1)
    starts, items, size = work_arrays(count, slots, q)
    work = Work(lengths=lengths, starts=starts, items=items, size=size, most=most)
    left = 0 if options.window is None else int(options.window)
    launch_work(work, left, least, problem.queries, plan.step, problem.window, stream)
    parts = arrays.empty((slots, kv_heads, plan.rows, widths[1]), "float32", q)
    sums = arrays.empty((2, slots, kv_heads, plan.rows), "float32", q)
    scale = (width**-0.5 if options.softmax_scale is None else options.softmax_scale) * LOG2_E
    arguments = DecodeArguments(
        q=queries, keys=cache[0], values=cache[1], table=table, scale_k=scale_k, scale_v=scale_v,
        parts=parts, sums=sums, scale=float(scale), left=left,
    )  # fmt: skip
    launch_decode(arguments, work, problem, stream)
    reduced = ReduceArguments(
        parts=parts, sums=sums, starts=starts, scale_v=scale_v, o=target,
        lse=sums if lse is None else lse, scaled=not per_token, kept=lse is not None,
    )  # fmt: skip
    launch_reduce(reduced, stream)
    return result, lse


def _check_heads(heads: int, kv_heads: int) -> None:
    """Check that heads of queries share those of the cache evenly.

    Raises:
        UserValueError: They do not.
    """
    if kv_heads < 1 or heads % kv_heads:
        raise UserValueError(
            "every head of the cache serves the same number of heads of queries",
            code="FLY-U966",
            value=f"{heads} and {kv_heads}",
            allowed="a multiple of the cache's heads",
        )


def check_pages(table: Any, lengths: Any, page: int, pages: int) -> None:
    """Check lengths and the pages in use, where they are in host memory.

    On a device nothing looks at them: reading them back would wait for all work before. Kernels
    take lengths and pages that there are not as the nearest, or last, that there are.

    Raises:
        UserValueError: A sequence has fewer keys than none or more than its pages hold, or uses a
            page that the cache does not have.
    """
    if arrays.is_torch(lengths) and lengths.device.type != "cpu":
        check_some_page(table, pages)
        return
    most = int(table.shape[1]) * page
    # A small table is read at once, of a large one only what is used.
    rows = table.tolist() if math.prod(table.shape) <= _SMALL else None
    for sequence, length in enumerate(lengths.tolist()):
        if not 0 <= length <= most:
            raise UserValueError(
                f"seqlens[{sequence}] is no number of keys that pages of the table hold",
                code="FLY-U949",
                value=length,
                allowed=f"0 to {most}",
            )
        size = -(-length // page)
        used = table[sequence, :size].tolist() if rows is None else rows[sequence][:size]
        wrong = [number for number in used if not 0 <= number < pages]
        if wrong:
            raise UserValueError(
                f"block_table names a page for sequence {sequence} that does not exist",
                code="FLY-U949",
                value=wrong[0],
                allowed=f"0 to {pages - 1}",
            )


def work_arrays(sequences: int, slots: int, like: Any) -> list[Any]:
    """Return new arrays for the list of parts: starts, items, size."""
    shapes: list[tuple[int, ...]] = [(sequences + 1,), (slots, 2), (1,)]
    return [arrays.empty(shape, "int32", like) for shape in shapes]


def decode_queries(q: Any) -> Any:
    """Return queries as [sequences, queries, heads, width], as kernels load them."""
    arrays.is_torch(q)
    if len(q.shape) not in {3, 4}:
        raise UserValueError(
            "q has another number of axes than decoding needs",
            code="FLY-U946",
            value=tuple(q.shape),
            allowed="[sequences, heads, d] or [sequences, queries, heads, d]",
        )
    if layout_of(q) is None and arrays.is_torch(q):
        q = q.detach()
    if not _adjacent(arrays.strides(q), 8) or address(q) % 16:
        q = arrays.contiguous(q)
    return q if len(q.shape) == 4 else q.reshape(q.shape[0], 1, *q.shape[1:])


def own_facts(q: Any) -> ArchFacts:
    """Return what is known of the architecture that is launched on with an array.

    Raises:
        TargetError: There is no target, or it is unknown.
    """
    return lookup(str(arrays.target_of(q).arch))


def decode_output(out: Any, q: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Return where the result goes: `out` once it is checked, or a new array."""
    if out is None:
        return arrays.empty(shape, kind, q)
    arrays.check_same_library(out, q, "out")
    arrays.check_shape(out, shape, "out")
    arrays.check_writable(out, "out")
    arrays.check_dtype(out, (kind,), "out")
    if not arrays.shares_memory(out, arrays.contiguous(out)):
        raise UserValueError(
            "out is not contiguous",
            code="FLY-U965",
            value=arrays.strides(out),
            allowed="row-major order",
        )
    return out


def cache_unit(scale: Any, like: Any, what: str) -> Any:
    """Return a unit of a whole cache as f32 [1].

    Raises:
        UserTypeError: Another library or device.
        UserValueError: Another shape or type, or a number that is not finite.
    """
    found, per_token = _scale(scale, like, (0, 0, 0), what)
    if per_token:
        arrays.check_shape(scale, (1,), what)
    return found


def part_slots(options: DecodeOptions, count: int, kv_heads: int, most: int) -> int:
    """Return for how many parts there is room: more than sequences, no more than there can be."""
    extra = options.partitions or max(1, _WORKGROUPS // kv_heads)
    return count + max(1, min(extra, count * max(most - 1, 0)))
