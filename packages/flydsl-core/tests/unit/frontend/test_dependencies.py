from __future__ import annotations

import sys
import types

import pytest

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


HELD = """
import functools

class Base:
    tile = 1

class Table:
    pass

class Default:
    pass

class Holder:
    pass

HOLDER = Holder()
HOLDER.kept = type("Kept", (), {"__module__": __name__})
TABLE = {"small": [Table]}
CALL = functools.partial(int, Base)

class Derived(Base):
    pass

def f(x=Default):
    return max(TABLE["small"][0].tile, x.tile, Derived.tile, HOLDER.kept.tile, CALL)
"""


@pytest.mark.parametrize("where", ["Table", "Default", "Derived", "HOLDER.kept", "Base"])
def test_attributes_of_classes_count_wherever_the_classes_are(where):
    space = plans(HELD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "user_code", space)
        found = collect_dependencies(space.f)
        assert found.unchanged()
        kind = eval(where, vars(space))
        kind.tile = 2
        assert not found.unchanged()
        changed = collect_dependencies(space.f)
        assert changed.digest != found.digest
        assert changed.unchanged()
        kind.tile = 3
        assert not changed.unchanged()


@pytest.mark.parametrize(
    ("line", "portable"),
    [
        ("from user_values import LIMIT", False),
        ("import user_values", False),
        ("from .values import LIMIT", False),
        ("import math", True),
        ("from flydsl.expr import arith", True),
    ],
)
def test_programs_that_import_from_the_user_inside_are_not_portable(line, portable):
    found = collect_dependencies(module(f"def f():\n    {line}\n    return 1\n").f)
    assert found.portable is portable


def test_private_slots_count():
    source = """
class Pair:
    __slots__ = ("__first",)
    def __init__(self, first):
        self.__first = first
    def first(self):
        return self.__first
PAIR = Pair(1)
def f():
    return PAIR.first()
"""
    space = plans(source)
    found = collect_dependencies(space.f)
    assert found.unchanged()
    space.PAIR.__init__(2)
    assert not found.unchanged()
    assert collect_dependencies(space.f).digest != found.digest


def test_a_global_that_hides_a_builtin_is_noticed():
    space = plans(HELD)
    found = collect_dependencies(space.f)
    assert found.unchanged()
    space.max = min
    assert not found.unchanged()
    assert collect_dependencies(space.f).digest != found.digest


PLANS = """
import dataclasses, functools

@dataclasses.dataclass(frozen=True)
class Row:
    vector: int = 4

    @property
    def bytes(self):
        return self.vector * 2

@dataclasses.dataclass(frozen=True)
class Plan:
    row: Row
    rows: tuple = ()

    def grid(self, n):
        return n // self.row.vector

PLAN = Plan(Row(8), (Row(),))

@functools.cache
def memoised(x):
    return x + 1

def f(x, plan):
    return memoised(x)

def g(x):
    return PLAN.row.bytes
"""
EDITS = [("self.vector * 2", "self.vector * 4"), ("n // self", "n + self"), ("int = 4", "int = 2")]


def plans(source):
    """`module`, while data classes can find it."""
    space = types.ModuleType("user_code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "user_code", space)
        exec(compile(source, "user_code.py", "exec"), vars(space))
    return space


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_the_code_of_classes_counts_wherever_their_objects_are(old, new):
    before, after = plans(PLANS), plans(PLANS.replace(old, new))
    assert collect_dependencies(before.g).digest != collect_dependencies(after.g).digest


@pytest.mark.parametrize(("old", "new"), [*EDITS, ("    rows:", "    more:")])
@pytest.mark.parametrize("value", ["Plan(Row(8))", "(1, Plan(Row(8)))", "[{2: Plan(Row(8))}]"])
def test_the_code_of_classes_of_arguments_counts(value, old, new):
    def found(source):
        space = plans(source)
        return collect_dependencies(space.f).given([eval(value, vars(space))])

    before, after = found(PLANS), found(PLANS.replace(old, new))
    assert before.digest == after.digest
    assert before.given_digest != after.given_digest
    assert before.given_digest == found(PLANS).given_digest
    assert before.given_digest


def test_changed_classes_of_arguments_are_noticed():
    space = plans(PLANS)
    found = collect_dependencies(space.f).given([space.Plan(space.Row(8))])
    assert found.unchanged()
    space.Row.bytes = property(lambda _: 5)
    assert not found.unchanged()


def test_values_without_classes_of_the_user_add_nothing():
    found = collect_dependencies(module().outer)
    assert found.given([1, "text", (2.0, None), [3]]) is found


def test_objects_that_refer_to_themselves_end():
    space = plans(PLANS)
    loop = [space.Row()]
    loop.append(loop)
    assert collect_dependencies(space.f).given([loop]).given_digest


def test_memoised_helpers_count_as_what_they_wrap():
    before = collect_dependencies(plans(PLANS).f)
    assert before.portable
    assert before.digest == collect_dependencies(plans(PLANS).f).digest
    after = collect_dependencies(plans(PLANS.replace("x + 1", "x + 2")).f)
    assert before.digest != after.digest


def test_a_replaced_memoised_helper_is_noticed():
    space = plans(PLANS)
    found = collect_dependencies(space.f)
    space.memoised = plans(PLANS).memoised
    assert not found.unchanged()


@pytest.mark.parametrize(
    ("old", "new"),
    [("frozen=True", "frozen=True, eq=False"), ("int = 4", "float = 4"), ("row: Row", "row: int")],
)
def test_of_data_classes_the_fields_count_and_not_their_text(old, new):
    before, after = plans(PLANS), plans(PLANS.replace(old, new))
    same = collect_dependencies(before.g).digest == collect_dependencies(after.g).digest
    assert same is (new != "frozen=True, eq=False")


@pytest.mark.parametrize(
    ("body", "portable"),
    [
        ("getattr(fx, name)(x)", True),
        ("getattr(fx.math, name)(x)", True),
        ("[getattr(fx.math, name)(y) for y in x]", True),
        ("getattr(fx, 'a') + getattr(x, name)", False),
        ("getattr(math, name)(x)", False),
        ("map(getattr, [x], [name])", False),
        ("[getattr(y, name) for y in x]", False),
        ("(lambda fx: getattr(fx, name))(x)", False),
        ("open(x)", False),
        ("getattr(fx, open(x))", False),
    ],
)
def test_only_attributes_of_our_own_modules_may_have_any_name(body, portable):
    source = f"import math\nimport flydsl.expr as fx\ndef f(x, name):\n    return {body}\n"
    assert collect_dependencies(module(source).f).portable is portable


def test_read_only_mappings_count_by_content():
    source = "import types\nTABLE = types.MappingProxyType({'a': [1]})\ndef f():\n    return TABLE"
    space = module(source)
    found = collect_dependencies(space.f)
    assert found.portable
    assert found.digest != collect_dependencies(module(source.replace("1", "2")).f).digest
    space.TABLE["a"].append(3)
    assert not found.unchanged()
