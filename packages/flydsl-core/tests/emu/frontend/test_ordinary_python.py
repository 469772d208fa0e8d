"""Python that decides about run-time values in less usual ways means what it says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from flydsl.errors import UserError

X = ((np.arange(64, dtype=np.int32) * 7919) % 23 - 7).astype(np.int32)
AGREE: list[Any] = []
REFUSED: dict[str, Any] = {}


def agrees(body):
    AGREE.append(pytest.param(body, id=body.__name__))
    return body


def refused(code, line):
    """Mark a body that is refused with a code, at a line counted from its ``def``."""

    def mark(body):
        REFUSED[body.__name__] = (body, code, line)
        return body

    return mark


# The operands of `and` and `or` are the result.
@agrees
def value_of_or(i, x, out):
    out[i] = (x[i] or 7) + 1


@agrees
def value_of_and(i, x, out):
    out[i] = (x[i] and i) + 1


@agrees
def value_of_a_flag_and_a_number(i, x, out):
    out[i] = (x[i] > 0 and i) + (i < 3 or x[i]) * 2


@agrees
def guarded_load_as_a_value(i, x, out):
    out[i] = (i < 32 and x[i + 20]) + 1


@agrees
def several_operands(i, x, out):
    out[i] = (x[i] % 3 or (i < 40 and x[i + 20]) or 5) * 2


@agrees
def numbers_as_conditions(i, x, out):
    if x[i] or i > 5:
        out[i] = 1
    if x[i] and i:
        out[i] = out[i] + 2
    while x[i] and out[i] < 5:
        out[i] = out[i] + 1


# Built-in functions that decide.
@agrees
def min_and_max(i, x, out):
    out[i] = min(x[i], i, 3) * 100 + max([x[i], 2]) + min(2, 1)


@agrees
def any_and_all(i, x, out):
    out[i] = 1 if any(x[i] > k for k in (1, 5)) and all([x[i] < 9, True]) else 0


@agrees
def any_that_is_known(i, x, out):
    out[i] = x[i] if any([x[i] > 0, True]) else 0


@agrees
def identity_with_true(i, x, out):
    flag = x[i] > 0
    flag = bool(flag) if isinstance(flag, np.bool_) else flag
    out[i] = (1 if flag is True else 2) + (10 if flag is not False else 20)
    if flag is False:
        out[i] = out[i] + 100


# Jumps out of `try` and endless loops.
def caught(v):
    try:
        if v > 2:
            return 1
    except ValueError:
        return 3
    else:
        return 2
    return 5


def finished(v):
    try:
        if v > 2:
            return 1
        return 2
    finally:
        pass


def endless(v):
    while True:
        v = v + 1
        if v > 3:
            return v


@agrees
def returns_inside_try(i, x, out):
    out[i] = caught(x[i]) + 10 * finished(x[i]) + 100 * endless(x[i])


# `match`.
@agrees
def match_numbers(i, x, out):
    match x[i]:
        case 0:
            out[i] = 10
        case 1 | 2 as q:
            out[i] = 20 + q
        case q if q > 7:
            out[i] = q
        case _:
            out[i] = 30


@agrees
def match_pairs(i, x, out):
    match x[i], i:
        case 0, _:
            out[i] = 1
        case (a, 3) if a > 1:
            out[i] = a
        case a, b:
            out[i] = a - b


def matched(v):
    match v:
        case -1:
            return 5
        case 0 | 1 | 2:
            return v * 10
        case n if n > 8:
            return n
    return 99


@agrees
def match_that_returns(i, x, out):
    out[i] = matched(x[i])


@agrees
def match_that_jumps(i, x, out):
    total = 0
    for k in range(6):
        match (x[i] + k) % 5:
            case 0:
                continue
            case 1 | 2 as q:
                total = total + q
            case q if q > 3:
                break
            case _:
                total = total + 100
    out[i] = total


@agrees
def match_of_known_values(i, x, out):
    for mode in ("load", "add", None):
        match mode:
            case "load":
                out[i] = x[i]
            case "add":
                out[i] = out[i] + 1
            case None:
                out[i] = out[i] * 2


@dataclasses.dataclass
class Pair:
    a: object
    b: object


@agrees
def match_by_structure(i, x, out):
    """Patterns that ask for a structure are decided while tracing."""
    match Pair(1, x[i]):
        case Pair(a=1, b=q):
            out[i] = q
        case _:
            out[i] = -1
    match [1, x[i]]:
        case [1, q]:
            out[i] = out[i] + q


@agrees
def match_evaluates_once(i, x, out):
    calls = [0]

    def subject():
        calls[0] = calls[0] + 1
        return x[i]

    match subject():
        case 1:
            out[i] = 1
        case 2:
            out[i] = 2
        case _:
            out[i] = 3
    out[i] = out[i] + 10 * calls[0]


# Names bound in expressions.
@agrees
def walrus_on_the_left(i, x, out):
    if (n := x[i] * 2) > 0 and n < 9:
        out[i] = n
    k = 0
    while (square := k * k) < x[i]:
        k = k + 1
    out[i] = out[i] + 100 * square


@agrees
def walrus_of_known_values(i, x, out):
    known = 3
    if known > 2 and (n := x[i]) > 0:
        out[i] = n


@refused("FLY-U216", 1)
def walrus_on_the_right(i, x, out):
    if x[i] > 0 and (n := i) > 3:
        out[i] = n


# What cannot be done is refused where it stands.
@refused("FLY-U214", 2)
def deletion(i, x, out):
    d = {"a": 1, "b": 2}
    if x[i] > 0:
        del d["a"]
    out[i] = len(d)


@refused("FLY-U214", 2)
def pop(i, x, out):
    d = {"a": 1, "b": 2}
    if x[i] > 0:
        d.pop("a")
    out[i] = len(d)


@refused("FLY-U203", 1)
def key(i, x, out):
    out[i] = {0: 1, 1: 2}[x[i] % 2]


@refused("FLY-U203", 1)
def member(i, x, out):
    out[i] = len({x[i], 1})


@refused("FLY-U203", 1)
def assertion(i, x, out):
    assert x[i] > -100
    out[i] = 1


@pytest.mark.parametrize("body", AGREE)
def test_means_what_it_says(both, body):
    both(body, [X, np.zeros(64, np.int32)])


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_at_its_line(device, name):
    body, code, line = REFUSED[name]
    with pytest.raises(UserError) as caught_:
        device(body, [X, np.zeros(64, np.int32)])
    assert caught_.value.code == code
    assert caught_.value.location.file == __file__
    decorated = body.__code__.co_firstlineno + 1
    assert caught_.value.location.line == decorated + line


def test_a_value_in_the_text_of_a_format_is_refused(device):
    import flydsl.expr as fx

    def body(i, x, out):
        fx.printf(f"x = {x[i]}")

    with pytest.raises(UserError, match="FLY-U272") as caught_:
        device(body, [X, np.zeros(64, np.int32)])
    assert "pass it as an argument" in str(caught_.value)
