"""What tells one compile-time value from another."""

from __future__ import annotations

import enum
import itertools
import math
import operator
import types
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from flydsl.compiler.arguments.compile_time import same_as, settled, static_key
from flydsl.layout import Layout


@dataclass(frozen=True)
class Plan:
    size: object
    hidden: object = field(default=None, compare=False)


class Pair(NamedTuple):
    first: object
    second: object = 2


class Level(enum.IntEnum):
    ONE = 1


class Plain:
    def __init__(self, size):
        self.size = size


def test_equal_values_that_differ_have_different_keys():
    ones = [1, True, 1.0, np.int64(1), np.float32(1), np.float64(1), Fraction(1), Level.ONE, 1 + 0j]
    zeros = [0.0, -0.0, np.float32(0.0), np.float32(-0.0), np.float64(-0.0), complex(0.0, -0.0)]
    plain = [*ones, *zeros]
    values = [*plain, *map(Plan, plain), *map(Pair, plain), *((x,) for x in plain)]
    values += [frozenset([x]) for x in plain]
    values += [Plan(1, hidden=True), Plan(1, hidden=[1]), Plan(1, hidden=[1.0]), Plan(Plan(1.0))]
    for one, other in itertools.combinations(values, 2):
        assert static_key(one) != static_key(other), (one, other)
        assert not same_as(one)(other)


def test_the_same_values_have_the_same_key():
    def make():
        return [1, "a", math.nan, (1, -0.0), Plan((1, 2.5), hidden=[3]), Pair(None), Level.ONE]

    more = [frozenset([1, 2.0]), Layout((4, 2), (1, 4)), np.float32(-0.0), int, math.sqrt, len]
    for one, other in zip([*make(), *more], [*make(), *more], strict=True):
        assert static_key(one) == static_key(other)
        assert hash(static_key(one)) == hash(static_key(other))
        assert same_as(one)(other)


def test_an_object_counts_by_what_it_holds_now():
    value = Plain(1)
    key, same = static_key(value), same_as(value)
    assert same(value)
    for other in (2, True, 1.0):
        value.size = other
        assert static_key(value) != key
        assert not same(value)
    value.size = 1
    assert same(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, "a", (2.5, None)), True),
        (Plan((1, Level.ONE)), True),
        (Plan(1, hidden=[]), False),
        (Pair(Plain(1)), False),
        (Plain(1), False),
        (frozenset([1]), True),
        (np.float32(1), True),
        (np.add, True),
        (types.SimpleNamespace, True),
        (operator.itemgetter(1), True),
    ],
)
def test_settled_values_do_not_change(value, expected):
    assert settled(value) is expected
