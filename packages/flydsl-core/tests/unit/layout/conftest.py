"""Strategies for random layouts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.testing.brute_force import KnownLeaf, flat

Nested = Any


def shapes(max_depth: int = 3, limit: int = 64) -> st.SearchStrategy[Nested]:
    leaf = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 6, 8])
    nested = st.recursive(
        leaf, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4
    )
    return nested.filter(lambda s: math.prod(flat(s)) <= limit and fl.depth(s) <= max_depth)


def _like(shape: Nested, flat: Iterator[int]) -> Nested:
    return tuple(_like(s, flat) for s in shape) if isinstance(shape, tuple) else next(flat)


@st.composite
def compact_layouts(draw: st.DrawFn, limit: int = 64) -> fl.Layout:
    """Layouts whose values are 0, 1, 2, ... in some order, or with gaps that repeat."""
    shape = draw(shapes(limit=limit))
    extents = flat(shape)
    order = draw(st.permutations(range(len(extents))))
    stride, strides = 1, [0] * len(extents)
    for i in order:
        stride *= draw(st.sampled_from([1, 1, 1, 2, 3]))
        strides[i] = stride
        stride *= extents[i]
    return fl.make_layout(shape, _like(shape, iter(strides)))


@st.composite
def any_layouts(draw: st.DrawFn, limit: int = 64) -> fl.Layout:
    """Layouts with arbitrary small strides."""
    shape = draw(shapes(limit=limit))
    steps = st.sampled_from([0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 12, 16, 24])
    strides = [draw(steps) for _ in flat(shape)]
    return fl.make_layout(shape, _like(shape, iter(strides)))


@st.composite
def hidden(draw: st.DrawFn, source: st.SearchStrategy[Any]) -> Any:
    """An object with some leaves known only at run time; their divisors and widths are true.

    Run-time extents and strides are positive by definition, so leaves of 0 stay static.
    """

    def hide(leaf: int) -> Any:
        if leaf < 1 or draw(st.booleans()):
            return leaf
        divisor = draw(st.sampled_from([d for d in range(1, leaf + 1) if leaf % d == 0]))
        return KnownLeaf(leaf, divisor, draw(st.sampled_from([32, 32, 64])))

    return fl.map_leaves(hide, draw(source))


@pytest.fixture(scope="session")
def layouts() -> st.SearchStrategy[fl.Layout]:
    """Static layouts of up to 64 elements and depth 3."""
    return st.one_of(compact_layouts(), any_layouts())


@pytest.fixture(scope="session")
def run_time_layouts(layouts: st.SearchStrategy[fl.Layout]) -> st.SearchStrategy[fl.Layout]:
    """The same with some extents and strides hidden in `KnownLeaf`s."""
    return hidden(layouts)
