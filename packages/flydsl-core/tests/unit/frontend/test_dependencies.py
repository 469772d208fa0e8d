from __future__ import annotations

import types

from flydsl.frontend import collect_dependencies

MODULE = """
import math
import flydsl.expr as fx
SCALE = 2
TABLE = [1, 2]
UNUSED = 5

def inner(x):
    return x * SCALE

def outer(x):
    return inner(x) + TABLE[0] + math.floor(x)

def make(bias):
    def f(x):
        return outer(x) + bias
    return f
"""


def module(source=MODULE):
    space = types.ModuleType("user_code")
    exec(compile(source, "user_code.py", "exec"), vars(space))
    return space


def test_everything_reached_is_listed_once_with_its_path():
    found = collect_dependencies(module().make(3))
    assert {entry.path for entry in found.entries} == {
        "",
        "/closure:bias",
        "/global:outer",
        "/global:outer/global:TABLE",
        "/global:outer/global:inner",
        "/global:outer/global:math",
        "/global:outer/global:inner/global:SCALE",
    }
    assert found.portable


def test_equal_sources_have_equal_digests_and_different_ones_do_not():
    digest = collect_dependencies(module().outer).digest
    assert collect_dependencies(module("\n\n" + MODULE).outer).digest == digest
    for old, new in (("SCALE = 2", "SCALE = 3"), ("x * SCALE", "x + SCALE"), ("[1, 2]", "[1, 3]")):
        assert collect_dependencies(module(MODULE.replace(old, new)).outer).digest != digest
    assert collect_dependencies(module(MODULE.replace("UNUSED = 5", "")).outer).digest == digest
    assert (
        collect_dependencies(module().make(1)).digest
        != collect_dependencies(module().make(2)).digest
    )


def test_a_replaced_helper_is_noticed():
    space = module()
    found = collect_dependencies(space.outer)
    assert found.unchanged()
    space.inner = lambda x: x
    assert not found.unchanged()


def test_a_rebound_value_is_noticed_and_an_equal_one_is_not():
    space = module()
    found = collect_dependencies(space.outer)
    space.SCALE = int("2")
    assert found.unchanged()
    space.SCALE = 4
    assert not found.unchanged()


def test_a_mutated_container_is_noticed():
    space = module()
    found = collect_dependencies(space.outer)
    space.TABLE.append(3)
    assert not found.unchanged()


def test_a_helper_edited_in_place_is_noticed():
    space = module()
    found = collect_dependencies(space.outer)
    space.inner.__code__ = (lambda x: x + 1).__code__
    assert not found.unchanged()


def test_a_closure_value_is_noticed():
    bias = 1

    def f(x):
        return x + bias

    found = collect_dependencies(f)
    assert found.unchanged()
    bias = 2
    assert not found.unchanged()


def test_objects_without_content_are_not_portable():
    source = "class Thing:\n    pass\nTHING = object()\ndef f():\n    return THING\n"
    assert not collect_dependencies(module(source).f).portable


def test_methods_and_class_attributes_count():
    source = """
class Helper:
    factor = 2
    def scale(self, x):
        return x * self.factor
def f(x):
    return Helper().scale(x)
"""
    digest = collect_dependencies(module(source).f).digest
    for old, new in (("factor = 2", "factor = 3"), ("x * self", "x + self")):
        assert collect_dependencies(module(source.replace(old, new)).f).digest != digest
