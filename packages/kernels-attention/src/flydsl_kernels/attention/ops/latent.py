"""From the arguments of `mla_decode` to launches."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl_kernels.attention.arrays import address, indices
from flydsl_kernels.attention.decoding import (
    LATENT,
    MLA_WIDTH,
    LatentPlan,
    LatentProblem,
    select_latent,
)
from flydsl_kernels.attention.ops.decode import (
    LOG2_E,
    DecodeOptions,
    cache_unit,
    check_pages,
    decode_output,
    decode_queries,
    own_facts,
    part_slots,
    work_arrays,
)
from flydsl_rocdl.arch import lookup

__all__ = ["run_latent"]

__flydsl_internal__ = True  # errors are at the line of the caller

_LEAST_KEYS = 256
"""Keys of a part: few, so that a short batch has parts for many workgroups."""


def _cache(cache: Any, like: Any) -> Any:
    """Return the cache as [pages, page, 576].

    Raises:
        UserTypeError: Another library or device.
        UserValueError: Another shape, or chunks that are not aligned.
    """
    arrays.check_same_library(cache, like, "kv_cache")
    shape = tuple(int(n) for n in cache.shape)
    if len(shape) == 4 and shape[2] == 1:
        cache, shape = cache[:, :, 0], (*shape[:2], shape[3])
    if len(shape) != 3 or shape[2] != MLA_WIDTH:
        raise UserValueError(
            "the cache has another shape than latent attention needs",
            code="FLY-U967",
            value=shape,
            allowed=f"[pages, page, {MLA_WIDTH}] or [pages, page, 1, {MLA_WIDTH}]",
        )
    step = arrays.strides(cache)
    aligned = step[2] == 1 and step[0] % 8 == 0 and step[1] % 8 == 0
    if not aligned or address(cache) % (8 * cache.itemsize):
        raise UserValueError(
            "chunks of kv_cache are not aligned",
            code="FLY-U965",
            value=step,
            allowed="a last stride of 1, others multiples of 8",
        )
    return cache


_problem = lru_cache(maxsize=256, typed=True)(LatentProblem)


@lru_cache(maxsize=256)
def _plan(problem: LatentProblem, arch: str) -> LatentPlan:
    return select_latent(problem, lookup(arch))


def run_latent(
    q: Any,
    cache: Any,
    where: tuple[Any, Any],
    scales: tuple[Any, Any],
    options: DecodeOptions,
    out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Decode without PyTorch's knowledge; see `mla_decode`.

    Args:
        q: Queries.
        cache: kv_cache.
        where: block_table, seqlens.
        scales: q_scale (a number), kv_scale.
        options: The others.
        out: Where to write the result.
        stream: Where to launch.

    Returns:
        The result and the logarithms of the sums, which are None unless asked for.
    """
    from flydsl_kernels.attention.device.decode_reduce import ReduceArguments, launch_reduce
    from flydsl_kernels.attention.device.decode_work import Work, launch_work
    from flydsl_kernels.attention.device.latent import LatentArguments, launch_latent

    if out is not None:
        q, cache, *read = arrays.apart_from((out,), q, cache, *where)
        where = (read[0], read[1])
    queries = decode_queries(q)
    count, length, heads, width = queries.shape
    tokens = _cache(cache, q)
    arrays.check_shape(queries, (count, length, heads, MLA_WIDTH), "q")
    problem = _problem(
        arrays.dtype_name(q), arrays.dtype_name(cache), heads, max(length, 1), int(tokens.shape[1])
    )
    table = indices(where[0], (count, -1), q, "block_table")
    lengths = indices(where[1], (count,), q, "seqlens")
    check_pages(table, lengths, problem.page, int(tokens.shape[0]))
    unit = cache_unit(scales[1], q, "kv_scale")
    result = decode_output(out, q, (*q.shape[:-1], LATENT), problem.kind)
    lse = arrays.empty((count, heads, length), "float32", q) if options.return_lse else None
    if not (count and length and heads):
        return result, lse
    plan = _plan(problem, own_facts(q).name)
    slots = part_slots(options, count, 1, -(-int(table.shape[1]) * problem.page // _LEAST_KEYS))
    most = min(int(table.shape[1]) * problem.page, (1 << 31) - 1)
    starts, items, size = work_arrays(count, slots, q)
    work = Work(lengths=lengths, starts=starts, items=items, size=size, most=most)
    launch_work(work, 0, _LEAST_KEYS, problem.queries, plan.step, False, stream)
    parts = arrays.empty((slots, 1, heads * length, LATENT), "float32", q)
    sums = arrays.empty((2, slots, 1, heads * length), "float32", q)
    scale = width**-0.5 if options.softmax_scale is None else options.softmax_scale
    factor = float(scale) * LOG2_E * (1.0 if scales[0] is None else float(scales[0]))
    arguments = LatentArguments(
        q=queries, cache=tokens, table=table, unit=unit, parts=parts, sums=sums, scale=factor
    )
    launch_latent(arguments, work, problem, stream)
    target = result
    if out is not None or len(result.shape) == 3:
        target = result.reshape(count, length, heads, LATENT)
    reduced = ReduceArguments(
        parts=parts, sums=sums, starts=starts, scale_v=unit, o=target,
        lse=sums if lse is None else lse, scaled=True, kept=lse is not None,
    )  # fmt: skip
    launch_reduce(reduced, stream)
    return result, lse
