from __future__ import annotations

import functools
import linecache
import types

import pytest

from flydsl.diagnostics import (
    at_user_line,
    function_location,
    is_framework_module,
    user_location,
    user_locations,
)
from flydsl.errors import SourceLocation, UserError


def framework(source, **names):
    """Compile `source` as a module of the framework and return its namespace."""
    module = types.ModuleType("flydsl.pretended")
    module.__dict__.update(names)
    exec(compile(source, "<framework>", "exec"), module.__dict__)
    return module


HELPER = framework("def where(skip=0):\n    return find(skip)\n", find=user_location)


def test_location_is_the_callers_line_and_columns():
    found = HELPER.where()
    assert found.file == __file__
    text = linecache.getline(__file__, found.line)
    assert text[found.column : found.end_column] == "HELPER.where()"
    assert str(found).endswith(f"test_frames.py:{found.line}")


def test_skip_passes_over_user_frames():
    def inner():
        return HELPER.where(), HELPER.where(1)

    near, far = inner()
    assert far.line > near.line


def test_columns_count_characters_not_bytes():
    found = ("ä€", HELPER.where())[1]
    text = linecache.getline(__file__, found.line)
    assert text[found.column : found.end_column] == "HELPER.where()"


def test_standard_library_between_user_and_framework_is_skipped():
    found = functools.reduce(lambda _, __: HELPER.where(), [1, 2])
    assert found.file == __file__
    from_c = framework("import contextlib\nclass C(contextlib.ContextDecorator):\n  pass\n")
    assert from_c.C is not None
    chain = user_locations()
    assert chain[0].file == __file__
    assert all("contextlib" not in place.file for place in chain)


def test_a_module_can_declare_itself_internal():
    module = types.ModuleType("someone_elses")
    module.find = user_location
    exec("__flydsl_internal__ = True\ndef where():\n    return find()\n", module.__dict__)
    assert module.where().file == __file__


@pytest.mark.parametrize(
    ("name", "internal"),
    [
        ("flydsl", True),
        ("flydsl.expr", True),
        ("flydsl_toy.plugin", True),
        ("flydsl_kernels.norm", False),
        ("flydslx", False),
        ("__main__", False),
    ],
)
def test_framework_modules(name, internal):
    assert is_framework_module(name) is internal


def test_function_location_sees_through_decorators():
    @functools.wraps(test_framework_modules)
    def wrapped():
        pass

    def plain():
        pass

    assert function_location(wrapped) == function_location(test_framework_modules)
    assert function_location(plain).line == plain.__code__.co_firstlineno
    assert function_location(len) is None


def test_errors_get_a_location_once():
    with pytest.raises(UserError) as caught, at_user_line():
        raise UserError("wrong")
    assert caught.value.location.file == __file__
    own = SourceLocation("elsewhere.py", 3)
    with pytest.raises(UserError) as caught, at_user_line():
        raise UserError("wrong", location=own)
    assert caught.value.location is own
    with pytest.raises(UserError) as caught, at_user_line(own):
        raise UserError("wrong")
    assert caught.value.location is own


def test_a_function_gives_its_errors_a_location():
    @at_user_line()
    def fails(error, *, times):
        """Raise it."""
        if times:
            fails(error, times=times - 1)
        raise error

    assert (fails.__name__, fails.__doc__) == ("fails", "Raise it.")
    there = SourceLocation("there.py", 3)
    for times in (0, 2):
        error, placed = UserError("wrong"), UserError("wrong", location=there)
        for one in (error, placed):
            with pytest.raises(UserError) as caught:
                fails(one, times=times)
            assert caught.value is one
        assert error.location.file == __file__
        assert placed.location is there
    with pytest.raises(KeyError):
        fails(KeyError("no error of the framework"), times=0)
