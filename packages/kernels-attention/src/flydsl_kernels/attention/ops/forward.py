"""From the arguments of `flash_attention` to launches."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext.arguments import is_number
from flydsl.ext.arrays import (
    apart_from,
    check_dtype,
    check_same_library,
    check_shape,
    check_writable,
    dtype_name,
    empty,
    is_torch,
    overlap,
)
from flydsl_kernels.attention.arrays import (
    as_rows,
    broadcast,
    check_some_page,
    indices,
    scales,
    written_in_place,
)
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.problem import FlashProblem

__all__ = [
    "as_batches",
    "index_arrays",
    "prepared",
    "problem_of",
    "run_forward",
    "shapes_of",
]

__flydsl_internal__ = True  # errors are at the line of the caller

_LOG2_E = 1.0 / math.log(2.0)
_ROWS = 256
"""Rows of queries that a workgroup takes at most."""
_ARRAYS = ("q", "k", "v", "starts_q", "starts_k", "lengths", "pages", "bias", "slopes", "sink",
           "scale_q", "scale_k", "scale_v")  # fmt: skip
"""The kernel's arrays but for its results."""
_GROUPS = 256
"""Workgroups that give every compute unit of a large device work."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """Extents of a call.

    Attributes:
        sequences: Number of sequences.
        batch: Batches of the arrays, 1 for packed sequences.
        rows: Rows of q in a batch.
        longest: Rows of the longest sequence.
        heads: Heads of q.
        kv_heads: Heads of k and v.
        d_qk: Elements of a row of q and k.
        d_v: Elements of a row of v.
        keys: Keys of the longest sequence, None where it is not known.
        page: Keys of a page or 0.
    """

    sequences: int
    batch: int
    rows: int
    longest: int
    heads: int
    kv_heads: int
    d_qk: int
    d_v: int
    keys: int | None
    page: int


def longest_of(starts: Any) -> int:
    """Return the length of the longest packed sequence, which waits for a device."""
    return int((starts[1:] - starts[:-1]).max()) if len(starts) > 1 else 0


def check_starts(starts: Any, total: int, what: str) -> None:
    """Check cumulative lengths in host memory.

    Raises:
        UserValueError: They do not rise from 0 to at most the number of rows.
    """
    if is_torch(starts) and starts.device.type != "cpu":
        return
    values = [int(x) for x in starts]
    rising = all(a <= b for a, b in itertools.pairwise(values))
    if not values or values[0] != 0 or not rising or values[-1] > total:
        raise UserValueError(
            f"{what} does not rise from 0 to at most the number of rows", code="FLY-U945",
            value=values, allowed=f"0 to {total}",
        )  # fmt: skip


def _rank(array: Any, rank: int, what: str) -> None:
    if len(array.shape) != rank:
        raise UserValueError(f"{what} has another number of axes", code="FLY-U946",
                             value=tuple(array.shape), allowed=f"{rank} axes")  # fmt: skip


def shapes_of(arrays: tuple[Any, Any, Any], sequences: Sequences, keys: Keys) -> Shapes:
    """Return the extents of a call.

    Raises:
        UserError: Arrays do not fit each other.
    """
    q, k, v = arrays
    packed = sequences.cu_seqlens_q is not None
    _rank(q, 3 if packed else 4, "q")
    for other, what in ((k, "k"), (v, "v")):
        check_same_library(other, q, what)
        if other.dtype is not q.dtype:
            check_dtype(other, (dtype_name(q),), what)
    paged, vectorised = keys.block_table is not None, keys.kv_layout == "vectorised"
    shapes = _extents(q.shape, k.shape, v.shape, packed, paged, vectorised)
    if not packed:
        return shapes
    longest = sequences.max_seqlen_q
    found = indices(sequences.cu_seqlens_q, (-1,), q, "cu_seqlens_q")
    check_starts(found, shapes.rows, "cu_seqlens_q")
    if longest is None:
        longest = longest_of(found)
    return Shapes(
        int(found.shape[0]) - 1, 1, shapes.rows, int(longest), shapes.heads, shapes.kv_heads,
        shapes.d_qk, shapes.d_v, sequences.max_seqlen_k, shapes.page,
    )  # fmt: skip


@lru_cache(maxsize=512)
def _extents(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...],
    packed: bool, paged: bool, vectorised: bool,
) -> Shapes:  # fmt: skip
    """Return what shapes alone say; of packed sequences neither how many nor how long they are.

    Raises:
        UserValueError: They do not fit each other.
    """
    *_, heads, d_qk = q
    keys, values = (SimpleNamespace(shape=tuple(shape)) for shape in (k, v))
    page, length, kv_heads, d_v = _keys_of(d_qk, keys, values, packed, paged, vectorised)
    if packed:
        return Shapes(0, 1, q[0], 0, heads, kv_heads, d_qk, d_v, None, page)
    batch, rows = q[:2]
    if not page and k[0] != batch:
        check_shape(keys, (batch, *k[1:]), "k")
    return Shapes(batch, batch, rows, rows, heads, kv_heads, d_qk, d_v, length, page)


def _keys_of(
    d_qk: int, k: Any, v: Any, packed: bool, paged: bool, vectorised: bool
) -> tuple[int, int | None, int, int]:
    """Return (keys of a page, keys of a sequence, kv heads, elements of v)."""
    if vectorised:
        _rank(k, 5, "k")
        _rank(v, 5, "v")
        pages, kv_heads, _, page, _ = k.shape
        check_shape(k, (pages, kv_heads, d_qk // 8, page, 8), "k")
        d_v = v.shape[3]
        check_shape(v, (pages, kv_heads, page // 8, d_v, 8), "v")
        return page, None, kv_heads, d_v
    _rank(k, 3 if packed and not paged else 4, "k")
    _rank(v, 3 if packed and not paged else 4, "v")
    *before, kv_heads, _ = k.shape
    check_shape(k, (*before, kv_heads, d_qk), "k")
    d_v = v.shape[-1]
    check_shape(v, (*before, kv_heads, d_v), "v")
    if paged:
        return before[1], None, kv_heads, d_v
    return 0, None if packed else before[1], kv_heads, d_v


# By types too: a truth value of NumPy equals Python's, and is another compile-time value.
_problem = lru_cache(maxsize=512, typed=True)(FlashProblem)


def problem_of(
    q: Any, shapes: Shapes, sequences: Sequences, keys: Keys, extras: Extras, lse: bool,
    short: bool = False,
) -> FlashProblem:  # fmt: skip
    """Return what is to be computed, of equal problems the same object.

    Raises:
        ConfigError: There is no kernel for it.
    """
    left, right = extras.bounds
    return _problem(
        dtype_name(q), shapes.heads, shapes.kv_heads, shapes.d_qk, shapes.d_v, min(left, 0),
        min(right, 0), sequences.cu_seqlens_q is not None, keys.seqlens_k is not None, shapes.page,
        keys.kv_layout == "vectorised", extras.bias is not None, extras.alibi_slopes is not None,
        extras.sink is not None, keys.num_splits, lse, short,
    )  # fmt: skip


def _short(shapes: Shapes, splits: int) -> bool:
    """Return whether a call leaves much of a large device without a workgroup."""
    groups = shapes.sequences * shapes.heads * -(-shapes.longest // _ROWS) * splits
    return groups < _GROUPS


def as_batches(array: Any) -> Any:
    """Return packed rows as one batch."""
    return array if len(array.shape) != 3 else array[None]


def run_forward(
    arrays: tuple[Any, Any, Any], sequences: Sequences, keys: Keys, extras: Extras,
    want_lse: bool, out: Any = None, stream: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute an attention; see `flash_attention` for the arguments.

    Returns:
        The result, and the logarithms of the sums or None.
    """
    from flydsl_kernels.attention.device.flash import launch_flash

    shapes = shapes_of(arrays, sequences, keys)
    short = _short(shapes, keys.num_splits)
    problem = problem_of(arrays[0], shapes, sequences, keys, extras, want_lse, short)
    result = _result(arrays[0], problem, out)
    if out is not None:
        arrays, sequences, keys, extras = _apart(out, arrays, sequences, keys, extras)
    q, target = arrays[0], as_batches(result)
    direct = written_in_place(target)
    if not direct:
        target = empty(tuple(target.shape), dtype_name(result), q)
    sums = empty((shapes.batch, shapes.heads, shapes.rows) if want_lse else (1, 1, 1), "float32", q)
    if shapes.batch and shapes.rows and shapes.heads:
        options = _arguments(arrays, problem, shapes, sequences, keys, extras)
        if problem.splits > 1:
            _run_split(problem, options, target, sums, extras, stream)
        else:
            arguments = options.made(o=target, lse=sums)
            launch_flash(arguments, problem, shapes.longest, stream)
    if not direct:
        as_batches(result)[...] = target
    if not want_lse:
        return result, None
    return result, sums[0] if problem.varlen else sums


def prepared(
    arrays: tuple[Any, Any, Any], sequences: Sequences, keys: Keys, extras: Extras
) -> tuple[FlashProblem, Options]:
    """Return what `run_forward` would launch, without logarithms, and its arguments."""
    shapes = shapes_of(arrays, sequences, keys)
    short = _short(shapes, keys.num_splits)
    problem = problem_of(arrays[0], shapes, sequences, keys, extras, False, short)
    return problem, _arguments(arrays, problem, shapes, sequences, keys, extras)


def _apart(
    out: Any, arrays: tuple[Any, Any, Any], sequences: Sequences, keys: Keys, extras: Extras
) -> Any:
    """Return the arguments, those copied that lie where the result goes."""
    given = (sequences.cu_seqlens_q, sequences.cu_seqlens_k, keys.block_table, keys.seqlens_k)
    more = (*arrays, extras.bias, extras.alibi_slopes, extras.sink, *extras.descale)
    if not any(overlap(out, x) for x in (*given, *more) if not (x is None or is_number(x))):
        return arrays, sequences, keys, extras

    def one(value: Any) -> Any:
        return value if value is None or is_number(value) else apart_from((out,), value)[0]

    return (
        tuple(one(array) for array in arrays),
        replace(sequences, cu_seqlens_q=one(given[0]), cu_seqlens_k=one(given[1])),
        replace(keys, block_table=one(keys.block_table), seqlens_k=one(keys.seqlens_k)),
        replace(
            extras, bias=one(extras.bias), alibi_slopes=one(extras.alibi_slopes),
            sink=one(extras.sink), descale=tuple(one(unit) for unit in extras.descale),
        ),
    )  # fmt: skip


def _result(q: Any, problem: FlashProblem, out: Any) -> Any:
    shape, name, byte = (*q.shape[:-1], problem.d_v), problem.dtype, problem.byte
    if out is None:
        return empty(shape, "bfloat16" if byte else name, q)
    check_same_library(out, q, "out")
    check_shape(out, shape, "out")
    check_writable(out, "out")
    allowed = ("bfloat16", "float16", "float32") if byte else (name, "float32")
    check_dtype(out, allowed, "out")
    return out


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of the kernel but for the results.

    Attributes:
        given: By name.
        longest: Rows of the longest sequence.
    """

    given: dict[str, Any]
    longest: int

    def made(self, **results: Any) -> Any:
        """Return the struct with the results."""
        from flydsl_kernels.attention.device.arguments import FlashArguments

        return FlashArguments(**self.given, **results)


def _arguments(
    arrays: tuple[Any, Any, Any], problem: FlashProblem, shapes: Shapes, sequences: Sequences,
    keys: Keys, extras: Extras,
) -> Options:  # fmt: skip
    """Return the arguments of the kernel."""
    q, k, v = arrays
    first, count = as_rows(as_batches(q)), shapes.sequences
    # Arrays that a problem has no use for are any.
    given: dict[str, Any] = dict.fromkeys(_ARRAYS, first)
    given["k"], given["v"] = as_rows(as_batches(k)), as_rows(as_batches(v))
    if not (sequences.cu_seqlens_q is sequences.cu_seqlens_k is keys.seqlens_k is None):
        given |= index_arrays(shapes, sequences, keys, q, int(k.shape[0]))
    if extras.bias is not None:
        given["bias"] = _bias(extras.bias, shapes, sequences, keys.seqlens_k, q)
    if extras.alibi_slopes is not None:
        given["slopes"] = scales(extras.alibi_slopes, (count, shapes.heads), q, "alibi_slopes")
    if extras.sink is not None:
        given["sink"] = scales(extras.sink, (shapes.heads,), q, "sink")
    if problem.byte:
        heads = (shapes.heads, shapes.kv_heads, shapes.kv_heads)
        for name, value, number in zip("qkv", extras.descale, heads, strict=True):
            given[f"scale_{name}"] = scales(value, (count, number), q, f"{name}_descale")
    elif any(value is not None for value in extras.descale):
        raise UserValueError("only 8-bit floats have units", code="FLY-U947",
                             value=problem.dtype)  # fmt: skip
    left, right = extras.bounds
    factor = extras.softmax_scale or shapes.d_qk**-0.5
    given["scale"], given["group"] = factor * _LOG2_E, shapes.heads // shapes.kv_heads
    given["left"], given["right"] = max(left, 0), max(right, 0)
    given["sequences"] = count
    return Options(given, shapes.longest)


def index_arrays(
    shapes: Shapes, sequences: Sequences, keys: Keys, like: Any, rows_k: int
) -> dict[str, Any]:
    """Return the arrays that say where sequences and pages are."""
    count, out = shapes.sequences, {}
    packed = sequences.cu_seqlens_q is not None
    if packed:
        out["starts_q"] = indices(sequences.cu_seqlens_q, (count + 1,), like, "cu_seqlens_q")
        if (sequences.cu_seqlens_k is None) != (keys.block_table is not None):
            raise UserValueError(
                "packed queries need packed keys or pages", code="FLY-U948",
                hint="pass cu_seqlens_k, or block_table and seqlens_k",
            )  # fmt: skip
        if keys.block_table is None:
            out["starts_k"] = indices(sequences.cu_seqlens_k, (count + 1,), like, "cu_seqlens_k")
            check_starts(out["starts_k"], rows_k, "cu_seqlens_k")
            if keys.seqlens_k is not None:
                raise UserValueError("packed keys have their lengths in cu_seqlens_k",
                                     code="FLY-U948")  # fmt: skip
    elif sequences.cu_seqlens_k is not None:
        raise UserValueError("packed keys need packed queries", code="FLY-U948",
                             hint="pass cu_seqlens_q")  # fmt: skip
    if keys.block_table is not None:
        out["pages"] = indices(keys.block_table, (count, -1), like, "block_table")
    if keys.seqlens_k is not None:
        out["lengths"] = indices(keys.seqlens_k, (count,), like, "seqlens_k")
        _check_lengths(out["lengths"], shapes, keys, rows_k)
    return out


def _check_lengths(lengths: Any, shapes: Shapes, keys: Keys, pages: int) -> None:
    """Check lengths and pages in host memory.

    Raises:
        UserValueError: A sequence has more keys than there are places for, or an unknown page.
    """
    if is_torch(lengths) and lengths.device.type != "cpu":
        if keys.block_table is not None:
            check_some_page(keys.block_table, pages)
        return
    most = shapes.keys
    if keys.block_table is not None:
        most = shapes.page * int(keys.block_table.shape[-1])
    for sequence, length in enumerate(int(x) for x in lengths):
        if not 0 <= length <= (most or 0):
            raise UserValueError("a sequence has more keys than there are places for, or fewer "
                                 "than none", code="FLY-U949", value=length,
                                 allowed=f"0 to {most}")  # fmt: skip
        if keys.block_table is not None:
            used = keys.block_table[sequence, : -(-length // shapes.page)]
            if any(not 0 <= int(page) < pages for page in used):
                raise UserValueError("block_table names a page that does not exist",
                                     code="FLY-U949", value=[int(x) for x in used],
                                     allowed=f"0 to {pages - 1}")  # fmt: skip


def _bias(bias: Any, shapes: Shapes, sequences: Sequences, lengths: Any, like: Any) -> Any:
    """Return the bias as a view [batch, heads, rows, keys]."""
    check_same_library(bias, like, "bias")
    check_dtype(bias, ("float32", "bfloat16", "float16"), "bias")
    keys = sequences.max_seqlen_k if shapes.keys is None else shapes.keys
    if keys is None:
        starts = sequences.cu_seqlens_k
        longest = longest_of(starts) if starts is not None else 0
        if starts is None and lengths is not None and len(lengths):
            longest = int(lengths.max())
        keys = max(longest, int(bias.shape[-1]) if bias.shape else 1)
    return broadcast(bias, (shapes.batch, shapes.heads, shapes.rows, keys), "bias")


def _run_split(
    problem: FlashProblem, options: Options, target: Any, sums: Any, extras: Extras, stream: Any
) -> None:
    """Compute the parts of the keys, and combine them."""
    from flydsl_kernels.attention.device.combine import CombineArguments, launch_combine
    from flydsl_kernels.attention.device.flash import launch_flash

    batch, rows, heads, width = target.shape
    parts = empty((problem.splits * batch, rows, heads, width), "float32", target)
    logs = empty((problem.splits * batch, heads, rows), "float32", target)
    launch_flash(options.made(o=parts, lse=logs), problem, options.longest, stream)
    arguments = CombineArguments(
        parts=parts, sums=logs, o=target, lse=sums, sink=options.given["sink"], batch=batch,
        splits=problem.splits, sunk=extras.sink is not None, kept=problem.lse,
    )  # fmt: skip
    launch_combine(arguments, stream)
