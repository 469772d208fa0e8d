"""From the arguments of `flash_attention` to launches."""

from __future__ import annotations

import itertools
import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext.arguments import as_text, check_fields, is_finite, is_number
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
from flydsl_kernels.attention.problem import FlashProblem, check_splits

__all__ = [
    "Extras",
    "Keys",
    "Sequences",
    "as_batches",
    "index_arrays",
    "prepared",
    "problem_of",
    "run_forward",
    "shapes_of",
]

__flydsl_internal__ = True  # errors are at the line of the caller

_LOG2_E = 1.0 / math.log(2.0)
_MOST = (1 << 31) - 1
_ROWS = 256
"""Rows of queries that a workgroup takes at most."""
_GROUPS = 256
"""Workgroups that give every compute unit of a large device work."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """Packed sequences, as the arguments of `flash_attention`."""

    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    max_seqlen_q: int | None = None
    max_seqlen_k: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("max_seqlen_q", "max_seqlen_k"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _MOST:
                raise UserValueError(f"{name} is no length", code="FLY-U949", value=value,
                                     allowed=f"0 to {_MOST}, or None")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keys:
    """Where keys are, how they are divided, and results, as the arguments of `flash_attention`."""

    block_table: Any = None
    seqlens_k: Any = None
    kv_layout: str = "linear"
    num_splits: int = 1
    return_lse: bool = False

    def __post_init__(self) -> None:
        check_splits(self.num_splits)
        check_fields(self)
        if as_text(self.kv_layout, "kv_layout") not in ("linear", "vectorised"):
            raise UserValueError(
                "pages have no such layout", code="FLY-U941", value=self.kv_layout,
                allowed="linear, vectorised",
            )  # fmt: skip
        if self.block_table is not None and self.seqlens_k is None:
            raise UserValueError("pages need the number of keys of each sequence",
                                 code="FLY-U942", hint="pass seqlens_k")  # fmt: skip
        if self.block_table is None and self.kv_layout != "linear":
            raise UserValueError("only pages have a vectorised layout", code="FLY-U941",
                                 value=self.kv_layout, hint="pass block_table")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extras:
    """What changes scores, as the arguments of `flash_attention`."""

    causal: bool = False
    window: tuple[int | None, ...] = (None, None)
    softmax_scale: float | None = None
    bias: Any = None
    alibi_slopes: Any = None
    sink: Any = None
    descale: tuple[Any, Any, Any] = (None, None, None)

    def __post_init__(self) -> None:
        scale = self.softmax_scale
        if scale is not None and not (is_finite(scale) and scale > 0):
            raise UserValueError("the scale of scores is positive and finite", code="FLY-U943",
                                 value=scale, allowed="positive numbers")  # fmt: skip
        given: object = self.window  # the annotation is a promise of the caller
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        if not pair or not all(s is None or isinstance(s, numbers.Integral) for s in self.window):
            raise UserValueError("a window is a pair: keys to the left and to the right",
                                 code="FLY-U944", value=self.window,
                                 allowed="two integers or None")  # fmt: skip

    @property
    def bounds(self) -> tuple[int, int]:
        """Keys that a row sees to its left and right, -1 for all."""
        left, right = (
            -1 if side is None or side < 0 else min(int(side), _MOST // 4) for side in self.window
        )
        return left, 0 if self.causal else right


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
    varlen = sequences.cu_seqlens_q is not None
    _rank(q, 3 if varlen else 4, "q")
    for other, what in ((k, "k"), (v, "v")):
        check_same_library(other, q, what)
        check_dtype(other, (dtype_name(q),), what)
    *_, heads, d_qk = (int(n) for n in q.shape)
    page, length, kv_heads, d_v = _keys_of(arrays, keys, packed=varlen)
    if varlen:
        longest = sequences.max_seqlen_q
        found = indices(sequences.cu_seqlens_q, (-1,), q, "cu_seqlens_q")
        count = int(found.shape[0]) - 1
        check_starts(found, int(q.shape[0]), "cu_seqlens_q")
        if longest is None:
            longest = longest_of(found)
        length = sequences.max_seqlen_k
        return Shapes(count, 1, int(q.shape[0]), int(longest), heads, kv_heads, d_qk, d_v, length,
                      page)  # fmt: skip
    batch, rows = int(q.shape[0]), int(q.shape[1])
    if not page and int(k.shape[0]) != batch:
        check_shape(k, (batch, *k.shape[1:]), "k")
    return Shapes(batch, batch, rows, rows, heads, kv_heads, d_qk, d_v, length, page)


def _keys_of(
    arrays: tuple[Any, Any, Any], keys: Keys, packed: bool
) -> tuple[int, int | None, int, int]:
    """Return (keys of a page, keys of a sequence, kv heads, elements of v)."""
    q, k, v = arrays
    d_qk = int(q.shape[-1])
    if keys.kv_layout == "vectorised":
        _rank(k, 5, "k")
        _rank(v, 5, "v")
        pages, kv_heads, _, page, _ = (int(n) for n in k.shape)
        check_shape(k, (pages, kv_heads, d_qk // 8, page, 8), "k")
        d_v = int(v.shape[3])
        check_shape(v, (pages, kv_heads, page // 8, d_v, 8), "v")
        return page, None, kv_heads, d_v
    paged = keys.block_table is not None
    _rank(k, 3 if packed and not paged else 4, "k")
    _rank(v, 3 if packed and not paged else 4, "v")
    *before, kv_heads, _ = (int(n) for n in k.shape)
    check_shape(k, (*before, kv_heads, d_qk), "k")
    d_v = int(v.shape[-1])
    check_shape(v, (*before, kv_heads, d_v), "v")
    if paged:
        return before[1], None, kv_heads, d_v
    return 0, None if packed else before[1], kv_heads, d_v


def problem_of(
    q: Any, shapes: Shapes, sequences: Sequences, keys: Keys, extras: Extras, lse: bool
) -> FlashProblem:
    """Return what is to be computed.

    Raises:
        ConfigError: There is no kernel for it.
    """
    left, right = extras.bounds
    return FlashProblem(
        dtype_name(q), shapes.heads, shapes.kv_heads, shapes.d_qk, shapes.d_v,
        left=min(left, 0), right=min(right, 0), varlen=sequences.cu_seqlens_q is not None,
        lengths=keys.seqlens_k is not None, page=shapes.page,
        vectorised=keys.kv_layout == "vectorised", bias=extras.bias is not None,
        alibi=extras.alibi_slopes is not None, sink=extras.sink is not None,
        splits=keys.num_splits, lse=lse,
    )  # fmt: skip


def _sized(problem: FlashProblem, shapes: Shapes) -> FlashProblem:
    """Return the problem, marked if it leaves much of a large device without a workgroup."""
    groups = shapes.sequences * shapes.heads * -(-shapes.longest // _ROWS) * problem.splits
    return replace(problem, short=groups < _GROUPS)


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
    problem = problem_of(arrays[0], shapes, sequences, keys, extras, want_lse)
    problem = _sized(problem, shapes)
    result = _result(arrays[0], shapes, out)
    if out is not None:
        arrays, sequences, keys, extras = _apart(out, arrays, sequences, keys, extras)
    q = arrays[0]
    like = as_batches(q)
    target, direct = as_batches(result), written_in_place(as_batches(result))
    if not direct:
        target = empty(tuple(target.shape), dtype_name(result), q)
    sums = empty((shapes.batch, shapes.heads, shapes.rows) if want_lse else (1, 1, 1), "float32", q)
    if math.prod(like.shape[:-1]):
        options = _arguments(arrays, shapes, sequences, keys, extras)
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
    problem = _sized(problem_of(arrays[0], shapes, sequences, keys, extras, False), shapes)
    return problem, _arguments(arrays, shapes, sequences, keys, extras)


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


def _result(q: Any, shapes: Shapes, out: Any) -> Any:
    shape = (*q.shape[:-1], shapes.d_v)
    name = dtype_name(q)
    if out is None:
        return empty(shape, "bfloat16" if name.startswith("float8") else name, q)
    check_same_library(out, q, "out")
    check_shape(out, shape, "out")
    check_writable(out, "out")
    allowed = ("bfloat16", "float16", "float32") if name.startswith("float8") else (
        name, "float32")  # fmt: skip
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
    arrays: tuple[Any, Any, Any], shapes: Shapes, sequences: Sequences, keys: Keys, extras: Extras
) -> Options:
    """Return the arguments of the kernel."""
    q, k, v = arrays
    like, count = q, shapes.sequences
    given: dict[str, Any] = {}
    given["q"], given["k"], given["v"] = (as_rows(as_batches(x)) for x in (q, k, v))
    unused = given["q"]
    names = ("starts_q", "starts_k", "lengths", "pages", "bias", "slopes", "sink", "scale_q",
             "scale_k", "scale_v")  # fmt: skip
    given |= dict.fromkeys(names, unused)
    given |= index_arrays(shapes, sequences, keys, like, int(k.shape[0]))
    if extras.bias is not None:
        given["bias"] = _bias(extras.bias, shapes, sequences, keys.seqlens_k, like)
    if extras.alibi_slopes is not None:
        given["slopes"] = scales(extras.alibi_slopes, (count, shapes.heads), like, "alibi_slopes")
    if extras.sink is not None:
        given["sink"] = scales(extras.sink, (shapes.heads,), like, "sink")
    if dtype_name(q).startswith("float8"):
        heads = (shapes.heads, shapes.kv_heads, shapes.kv_heads)
        for name, value, number in zip("qkv", extras.descale, heads, strict=True):
            given[f"scale_{name}"] = scales(value, (count, number), like, f"{name}_descale")
    elif any(value is not None for value in extras.descale):
        raise UserValueError("only 8-bit floats have units", code="FLY-U947",
                             value=dtype_name(q))  # fmt: skip
    left, right = extras.bounds
    factor = extras.softmax_scale or shapes.d_qk**-0.5
    given |= {
        "scale": factor * _LOG2_E, "left": max(left, 0), "right": max(right, 0),
        "group": shapes.heads // shapes.kv_heads, "sequences": count,
    }  # fmt: skip
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

    batch, rows, heads, width = (int(n) for n in target.shape)
    parts = empty((problem.splits * batch, rows, heads, width), "float32", target)
    logs = empty((problem.splits * batch, heads, rows), "float32", target)
    launch_flash(options.made(o=parts, lse=logs), problem, options.longest, stream)
    sink = options.given["sink"]
    arguments = CombineArguments(
        parts, logs, target, sums, sink, batch, problem.splits, extras.sink is not None,
        problem.lse,
    )  # fmt: skip
    launch_combine(arguments, stream)
