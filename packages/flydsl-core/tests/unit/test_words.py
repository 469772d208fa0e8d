"""Words of memory that change with functions and dictionaries."""

from __future__ import annotations

import random
import sys
import types
from collections import OrderedDict

import pytest

from flydsl import words as module
from flydsl.frontend import collect_dependencies
from flydsl.words import Words, layout, viewed

NUMBERED = sys.implementation.name == "cpython" and sys.version_info < (3, 13)


@pytest.fixture
def fresh(monkeypatch):
    """Return a way to find the layout anew."""
    layout.cache_clear()
    yield layout
    monkeypatch.undo()
    layout.cache_clear()


def test_interpreters_that_number_dictionaries_have_words():
    assert (layout() is not None) == NUMBERED


def test_a_place_that_only_some_changes_change_is_none(fresh, monkeypatch):
    # The number of items, which a new value for a name leaves.
    monkeypatch.setattr(module, "_STATE_OFFSET", 2 * module._WORD)
    assert fresh() is None


def test_a_place_that_never_changes_is_none(fresh, monkeypatch):
    monkeypatch.setattr(module, "_STATE_OFFSET", module._WORD)  # the type
    assert fresh() is None


def test_a_place_past_the_object_is_not_read(fresh, monkeypatch):
    monkeypatch.setattr(module, "_STATE_OFFSET", dict.__basicsize__)
    assert fresh() is None


def sample(number=1, *, other=2):
    return number + other


@pytest.mark.skipif(not NUMBERED, reason="this interpreter does not number dictionaries")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__code__", (lambda number, *, other: number - other).__code__),
        ("__defaults__", (1.0,)),
        ("__defaults__", None),
        ("__kwdefaults__", {"other": 3}),
    ],
)
def test_words_follow_functions(name, value):
    function = types.FunctionType(sample.__code__, {}, "sample", (1,))
    function.__kwdefaults__ = {"other": 2}
    words = Words([sample, function], [])
    before = words.read()
    function(1)
    function.note = 1
    function.__doc__ = "another"
    assert words.read() == before
    held = getattr(function, name)
    setattr(function, name, value)
    assert words.read() != before
    setattr(function, name, held)
    assert words.read() == before


@pytest.mark.skipif(not NUMBERED, reason="this interpreter does not number dictionaries")
@pytest.mark.parametrize("seed", range(8))
def test_words_follow_dictionaries_through_any_changes(seed):
    rng = random.Random(seed)
    spaces = [{}, dict.fromkeys("abc"), {n: n for n in range(100)}, vars(types.ModuleType("m"))]
    values = [1, 1.0, True, "a", None, (), [], object()]

    class Holder:
        pass

    spaces.append(viewed(vars(Holder)))
    changes = [
        lambda space, item: space.__setitem__(*item),
        lambda space, item: space.pop(*item),
        lambda space, item: space.update([item]),
        lambda space, item: space.setdefault(*item),
        lambda space, item: space.__ior__([item]),
        lambda space, item: exec(f"global {item[0]}\n{item[0]} = 5", space),
        lambda space, item: space.get(*item),
        lambda space, item: [*space.items(), item],
    ]
    for _ in range(400):
        space = rng.choice(spaces[:4])
        words = Words([], spaces)
        before = words.read()
        state = [{key: id(value) for key, value in one.items()} for one in spaces]
        key, value = rng.choice("abcdef"), rng.choice(values)
        if rng.random() < 0.2:
            setattr(Holder, key, value)
        else:
            rng.choice(changes)(space, (key, value))
        after = [{key: id(value) for key, value in one.items()} for one in spaces]
        if after != state:
            assert words.read() != before
        assert words.read() == words.read()


@pytest.mark.skipif(not NUMBERED, reason="this interpreter does not number dictionaries")
def test_an_object_of_a_derived_class_has_no_words():
    assert Words([], [{}]).read() is not None
    assert Words([], [OrderedDict()]).read() is None
    assert Words([sample, len], []).read() is None


def test_views_of_classes_are_seen_through():
    class Holder:
        held = 1

    found = viewed(vars(Holder))
    assert type(found) is dict
    Holder.held = 2
    assert found["held"] == 2
    space = {"a": 1}
    assert viewed(space) is space
    assert viewed(types.MappingProxyType(space)) is space


def test_a_module_that_changes_itself_is_looked_at_again():
    space = types.ModuleType("counting")
    source = "CALLS = 0\nFACTOR = 2\ndef outer(x):\n    return x * FACTOR\n"
    exec(compile(source, "counting.py", "exec"), vars(space))
    found = collect_dependencies(space.outer)
    for calls in range(5):
        space.CALLS = calls
        assert found.unchanged()
    space.FACTOR = 2.0
    assert not found.unchanged()
    space.FACTOR = 2
    assert found.unchanged()


def test_a_name_that_appears_counts():
    space = types.ModuleType("naming")
    exec(compile("def outer(x):\n    return max(x, 1)\n", "naming.py", "exec"), vars(space))
    found = collect_dependencies(space.outer)
    assert found.unchanged()
    assert found.unchanged()
    space.max = min
    assert not found.unchanged()
    del space.max
    assert found.unchanged()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("__defaults__", lambda number: (number,)),
        ("__defaults__", lambda number: (number, number)),
        ("__code__", lambda number: sample.__code__.replace(co_consts=(None, number))),
    ],
)
def test_what_is_made_where_a_part_of_a_function_has_been_is_another(monkeypatch, name, make):
    import string

    function = string.capwords  # of a library: it counts by content only
    monkeypatch.setattr(function, name, make(1))
    space = types.ModuleType("holding")
    source = "import string\nTABLE = [string.capwords]\ndef outer(x):\n    return TABLE[0](x)\n"
    exec(compile(source, "holding.py", "exec"), vars(space))
    found = collect_dependencies(space.outer)
    assert found.unchanged()
    assert found.unchanged()
    setattr(function, name, make(2))
    # What is freed last is usually the next to be given out.
    for _ in range(100):
        setattr(function, name, make(3))
        assert not found.unchanged()
        kept = make(4)
        setattr(function, name, kept)
        assert not found.unchanged()
