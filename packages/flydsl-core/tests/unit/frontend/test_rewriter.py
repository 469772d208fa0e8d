"""A rewritten function does exactly what Python does when every value is a Python value."""

from __future__ import annotations

import random

import pytest

from flydsl.errors import UserError
from flydsl.frontend.runtime import CACHE


def rewritten(function):
    made = CACHE.rewritten(function, entry=True)
    assert made.__code__ is not function.__code__
    return made


def branches(x):
    if x < 0:
        y = -x
    elif x == 0:
        y = 100
    else:
        y = x * 2
    return y


def annotated(x):
    total: int = 0
    if x > 0:
        parts: list[int] = []
        for i in range(x):
            if i % 2:
                parts: list[int] = [*parts, i]
        total: int = sum(parts)
    return total


def early_returns(x):
    if x < 0:
        return "negative"
    for i in range(x):
        if i * i > 50:
            return i
        if i == 40:
            break
    else:
        return "no break"
    return "end"


def loops(n):
    total = 0
    odd = []
    for i in range(10, 10 - n, -1):
        if i % 3 == 0:
            continue
        if i < 2:
            break
        total += i
        odd.append(i)
    i = 0
    while i < n:
        i += 1
        if i == 7:
            break
    else:
        total += 1000
    return total, odd, i


def nested_jumps(n):
    found = []
    for a in [1, 2, 3, 4]:
        for b in range(n):
            if b > a:
                break
            if (a + b) % 2:
                continue
            found.append((a, b))
            if len(found) == 5:
                return found
        else:
            found.append("all")
    return found


def short_circuit(log, a, b, c):
    def note(x):
        log.append(x)
        return x

    return (note(a) and note(b)) or not note(c)


def chained(log, values):
    def note(i):
        log.append(i)
        return values[i]

    return note(0) < note(1) <= note(2) != note(3)


def ternaries(x):
    f = lambda v: "big" if v > 10 else ("small" if v > 0 else "none")  # noqa: E731
    return [f(v) for v in x]


def membership(x, items):
    return x in items, x not in items, x in items and 5 in items


def locals_stay_unbound(flag):
    if flag:
        value = 1
    return value


def closures(n):
    count = 0

    def bump():
        nonlocal count
        count += 1

    for _ in range(n):
        bump()
        if count > 3:
            bump()
    return count


def walrus(items):
    out = []
    i = 0
    while (item := items[i]) is not None:
        out.append(item)
        i += 1
    if (n := len(out)) > 2:
        out.append(n)
    return out


def tries(x):
    try:
        if x == 0:
            raise ValueError("zero")
        for i in range(3):
            if i == x:
                return "early"
    except ValueError as error:
        return str(error)
    finally:
        x = 5
    return "late"


def unpacking(pairs):
    total = 0
    for a, (b, *rest) in pairs:
        if rest:
            total += a * b + len(rest)
    first, *others = [total, 1, 2]
    del others
    return first


def matches(x):
    match x:
        case {"a": value}:
            if value > 1:
                return value
        case [a, *_] if a > 0:
            return a
        case _:
            pass
    return None


def generator(n):
    for i in range(n):
        if i % 2:
            yield i


CASES = [
    (branches, [(x,) for x in (-3, 0, 4)]),
    (annotated, [(x,) for x in (-3, 0, 1, 4)]),
    (early_returns, [(x,) for x in (-1, 0, 3, 9, 60)]),
    (loops, [(n,) for n in (0, 3, 7, 10, 20)]),
    (nested_jumps, [(n,) for n in (0, 1, 2, 6)]),
    (ternaries, [([20, 5, 0],)]),
    (membership, [(5, [1, 5]), (4, (1, 5))]),
    (closures, [(n,) for n in (0, 2, 5)]),
    (walrus, [([1, 2, None],), ([1, 2, 3, None],)]),
    (tries, [(x,) for x in (0, 1, 9)]),
    (unpacking, [([(1, (2, 3)), (4, (5,)), (6, (7, 8, 9))],)]),
    (matches, [({"a": 1},), ({"a": 2},), ([3, 4],), (7,)]),
]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(f, a) for f, many in CASES for a in many],
    ids=lambda v: getattr(v, "__name__", str(v)[:40]),
)
def test_python_values_behave_as_in_python(function, arguments):
    assert rewritten(function)(*arguments) == function(*arguments)


@pytest.mark.parametrize("bits", range(8))
def test_short_circuit_evaluates_what_python_evaluates(bits):
    values = [bool(bits & 1), bool(bits & 2), bool(bits & 4)]
    plain, traced = [], []
    assert rewritten(short_circuit)(traced, *values) == short_circuit(plain, *values)
    assert traced == plain


@pytest.mark.parametrize("seed", range(12))
def test_chained_comparison_evaluates_each_operand_at_most_once(seed):
    values = [random.Random(seed * 4 + i).randrange(3) for i in range(4)]
    plain, traced = [], []
    assert rewritten(chained)(traced, values) == chained(plain, values)
    assert traced == plain


def test_unbound_variables_stay_unbound():
    assert rewritten(locals_stay_unbound)(True) == 1
    with pytest.raises(UnboundLocalError):
        rewritten(locals_stay_unbound)(False)


def test_generators_keep_yielding():
    assert list(rewritten(generator)(6)) == [1, 3, 5]


def test_defaults_keyword_arguments_and_closures_are_those_of_the_original():
    scale = 3

    def function(x, /, y=2, *, z=5):
        if x > y:
            return x * scale + z
        return y * scale

    made = rewritten(function)
    assert made(9) == function(9)
    assert made(1, z=7) == function(1, z=7)
    scale = 10
    assert made(9) == 95


def test_methods_and_tracebacks_refer_to_the_users_file():
    class Thing:
        factor = 4

        def scaled(self, x):
            if x > 1:
                raise KeyError(self.factor)
            return x

    with pytest.raises(KeyError) as caught:
        rewritten(Thing.scaled)(Thing(), 2)
    entry = caught.traceback[-1]
    assert str(entry.path) == __file__
    assert "raise KeyError" in str(entry.statement)


class _Private:
    __slots__ = ("__held", "__other__")

    def __init__(self):
        self.__held = 3
        self.__other__ = 4

    def both(self, x):
        __local = self.__held + x

        def __inner(__y):
            return __local + __y + self.__other__

        if x > 1:
            __local = 2 * __local
        return __inner(x)

    class __:
        def __init__(self):
            self.__held = 5

        def held(self):
            return self.__held


@pytest.mark.parametrize("x", [1, 2])
def test_private_names_are_those_of_the_class(x):
    assert rewritten(_Private.both)(_Private(), x) == _Private().both(x)
    unnamed = vars(_Private)["__"]
    assert rewritten(unnamed.held)(unnamed()) == 5


def test_helpers_are_rewritten_and_library_functions_are_not():
    def helper(x):
        return x

    assert CACHE.callable_for(helper).__code__ is not helper.__code__
    assert CACHE.callable_for(random.randrange) is random.randrange
    assert CACHE.callable_for(len) is len


def super_call():
    class Base:
        def f(self):
            return 1

    class Derived(Base):
        def f(self):
            return super().f()

    return Derived.f


def test_refusals_name_the_line():
    with pytest.raises(UserError, match="super") as caught:
        CACHE.rewritten(super_call(), entry=True)
    assert caught.value.location.file == __file__
    assert "super().f()" in caught.value.location.snippet()


def test_source_that_is_not_there_is_reported():
    space: dict = {}
    exec("def ghost(x):\n    return x", space)
    with pytest.raises(RuntimeError, match="'ghost' cannot be traced"):
        CACHE.rewritten(space["ghost"], entry=True)
    assert CACHE.rewritten(space["ghost"])(3) == 3  # a helper runs as it is
