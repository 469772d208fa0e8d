"""Values of latent attention that are infinite or NaN and that some queries must not see.

See `nonfinite`. Values are keys too: they lose what is not finite between the two products of a
step. A key with such an element has a score that is none, or minus infinity and no weight, which
times infinity is none: so what a row sees of it makes its results NaN.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.decoding import LATENT, MLA_WIDTH
from flydsl_kernels.attention.device.caches import known_page
from flydsl_kernels.attention.device.nonfinite import cleaned, mend, odd_part

__all__ = ["clean_tokens", "mend_rows"]

_CHUNK = 8


@flyc.jit
def clean_tokens(place: Any, first: Any, flag: Any) -> Any:
    """Take what is not finite out of the values of the step in LDS, if rows see it in part.

    Returns:
        The flag, 1 if the wave found anything of the kind.

    Args:
        place: The thread's place.
        first: First key of the step, whose scores the wave has made.
        flag: The flag.
    """
    plan, chunks = place.plan, LATENT // _CHUNK
    if first + plan.step > place.length - plan.problem.queries + 1:
        vector = vector_alias(place.kind, (_CHUNK,))
        # The others make their scores of what is in LDS.
        fx.rocdl.lds_barrier()
        for index in range(place.thread, plan.step * chunks, plan.threads):
            start = place.tokens + (index // chunks * MLA_WIDTH + index % chunks * _CHUNK)
            kept, flag = cleaned([start.load(vector)], plan.problem.kind, flag, place.unit.lanes)
            start.store(kept[0])
        fx.rocdl.lds_barrier()
    return flag


@flyc.jit
def mend_rows(place: Any, slot: Any, span: tuple[Any, Any]) -> None:
    """Make results NaN whose rows see of their values what was taken out.

    Args:
        place: The thread's place.
        slot: Number of the part.
        span: The part's first key, and one past the last.
    """
    a, plan, unit = place.a, place.plan, place.unit
    problem = plan.problem
    # Other lanes have written some of it.
    fx.gpu.barrier()
    if place.number < plan.rows:
        end = place.length - problem.queries + place.number // problem.heads + 1
        start = slot.to(fx.Int64) * a.parts.stride[0]
        start = start + place.number.to(fx.Int64) * a.parts.stride[2]
        mend(
            [(fx.max(span[0], end - problem.queries - plan.step), fx.min(end, span[1]))],
            (place.member * unit.parts + place.part, LATENT, plan.split * unit.parts, 1),
            lambda key, element: odd_value(place, key, element),
            a.parts.iter + start,
        )


def odd_value(place: Any, key: Any, element: Any) -> Any:
    """Return NaN if an element of a key's value is not finite, else zero."""
    cache, page = place.a.cache, place.plan.problem.page
    number = known_page((place.table + key // page).load(), cache)
    start = cache.iter + number.to(fx.Int64) * cache.stride[0]
    start = start + (key % page).to(fx.Int64) * cache.stride[1]
    return odd_part((start + element).load(), place.plan.problem.cache, lost=True)
