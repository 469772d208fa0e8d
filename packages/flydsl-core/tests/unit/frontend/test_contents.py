"""What counts as the program: every kind of value, changed in every way."""

from __future__ import annotations

import copy
import enum
import functools
import math
import operator
import types

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.frontend import collect_dependencies


class Config:
    kind = fx.Float32

    def __init__(self, value):
        self.value = value

    def double(self):
        return self.value * 2


class Derived(Config):
    pass


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Mode(enum.Enum):
    A = 1.0


def read(thing):
    return thing.value


def using(thing):
    def user(x):
        return read(thing) if x else thing

    return user


PAIRS = [
    (fx.math.exp, fx.math.log),
    (fx.Float32, fx.Float16),
    (operator.add, operator.mul),
    (math.sqrt, math.exp),
    (math, operator),
    (min, max),
    (np.float32, np.float64),
    (np.add, np.multiply),
    (np.dtype("f4"), np.dtype("f8")),
    (Config(1), Config(2)),
    (Config(1), Derived(1)),
    (Slotted(1), Slotted(2)),
    (types.SimpleNamespace(value=1), types.SimpleNamespace(value=2)),
    (functools.partial(math.pow, 2), functools.partial(math.pow, 3)),
    (np.arange(3), np.arange(4)),
    (np.zeros(3), np.ones(3)),
    (0.0, -0.0),
    (1, True),
    ({"f": math.sqrt}, {"f": math.exp}),
    ([Config(1)], [Config(2)]),
    ((fx.Float32,), (fx.Float16,)),
    (Config(1).double, Config(2).double),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda value: str(value)[:20])
def test_what_differs_has_another_digest(one, other):
    first, second = collect_dependencies(using(one)), collect_dependencies(using(other))
    if first.portable and second.portable:
        assert first.digest != second.digest
    # And in one process, replacing the captured value is noticed, whatever it is.
    user = using(one)
    found = collect_dependencies(user)
    assert found.unchanged()
    cell = dict(zip(user.__code__.co_freevars, user.__closure__, strict=True))["thing"]
    cell.cell_contents = other
    assert not found.unchanged()


def change_attribute(thing):
    thing.value = 9


def change_item(thing):
    thing[0].value = 9


def change_array(thing):
    thing[1] = 9


MUTATIONS = [
    (Config(1), change_attribute),
    (Slotted(1), change_attribute),
    ([Slotted(1)], change_item),
    (np.zeros(3), change_array),
    ({"a": np.zeros(3)}, lambda thing: change_array(thing["a"])),
    (Config(1).double, lambda thing: change_attribute(thing.__self__)),
]


@pytest.mark.parametrize(("thing", "change"), MUTATIONS, ids=lambda value: str(value)[:20])
def test_changes_in_place_are_noticed(thing, change):
    thing = copy.deepcopy(thing)
    found = collect_dependencies(using(thing))
    assert found.unchanged()
    change(thing)
    assert not found.unchanged()


def test_attributes_that_no_code_names_do_not_count():
    thing = Config(1)
    found = collect_dependencies(using(thing))
    thing.never_named_anywhere = 5
    assert found.unchanged()


def test_replaced_methods_and_class_attributes_are_noticed():
    for name, value in (("double", lambda self: self.value * 3), ("kind", fx.Float16)):
        thing = Derived(1)
        found = collect_dependencies(using(thing))
        before = vars(Config)[name]
        setattr(Config, name, value)
        try:
            assert not found.unchanged()
        finally:
            setattr(Config, name, before)


def test_keyword_defaults_are_noticed():
    def helper(*, scale=2.0):
        return scale

    found = collect_dependencies(helper)
    helper.__kwdefaults__["scale"] = 3.0
    assert not found.unchanged()


def test_what_reads_from_outside_is_not_portable():
    import os

    def environment():
        return os.environ["X"]

    def by_name(thing):
        return getattr(thing, "a" + "b")

    def plain():
        return Mode.A.value

    assert not collect_dependencies(environment).portable
    assert not collect_dependencies(by_name).portable
    assert collect_dependencies(plain).portable


def test_arrays_too_large_to_compare_count_as_changed():
    found = collect_dependencies(using(np.zeros(1 << 18)))
    assert not found.unchanged()
    assert not found.portable


def test_objects_that_refer_to_themselves_end():
    thing = Config(1)
    thing.value = thing
    found = collect_dependencies(using(thing))
    assert found.unchanged()
