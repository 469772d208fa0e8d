"""Whatever is passed, functions give a result or a `UserError`; nothing else escapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flydsl.expr as fx
import flydsl.layout as fl
from flydsl.errors import UserError
from flydsl.expr import layout_functions, layout_questions, tuple_functions

_INTEGERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([0, 2**31 - 1, 2**31, 2**32, -(2**31), 2**40, 2**63, 2**64, 2**80, -(2**80)]),
)
_LEAVES = st.one_of(
    _INTEGERS,
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=2),
    st.builds(object),
    st.builds(fl.Dyn, st.sampled_from([32, 64]), st.integers(1, 16)),
    st.builds(lambda m: fl.E(*m), st.lists(st.integers(0, 2), max_size=3)),
)
_TUPLES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple)),
    max_leaves=6,
)


def _or_none(make: Callable[..., Any]) -> Callable[..., Any]:
    def build(*args: Any) -> Any:
        try:
            return make(*args)
        except UserError:
            return None

    return build


_SMALL = st.recursive(
    st.integers(0, 6),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple),
    max_leaves=4,
)
_STRIDES = st.one_of(_SMALL, _TUPLES)
_LAYOUTS = st.one_of(
    st.builds(_or_none(fl.make_layout), _TUPLES, _TUPLES),
    st.builds(_or_none(fl.make_layout), _SMALL),
    st.builds(_or_none(fl.make_identity_layout), _SMALL),
    st.builds(_or_none(fl.make_ordered_layout), _SMALL, _SMALL),
)
_SWIZZLES = st.builds(
    _or_none(fl.Swizzle), st.integers(-1, 4), st.integers(-1, 70), st.integers(-4, 4)
)
_COORD_SWIZZLES = st.builds(
    _or_none(fl.CoordSwizzle),
    st.integers(0, 3),
    st.integers(0, 2),
    st.lists(st.integers(0, 2), max_size=2).map(tuple),
    st.integers(0, 2),
    st.lists(st.integers(0, 2), max_size=2).map(tuple),
)
_COMPOSED = st.builds(
    _or_none(fl.make_composed_layout),
    st.one_of(_SWIZZLES, _COORD_SWIZZLES, _LAYOUTS),
    st.one_of(_SMALL, _TUPLES),
    _LAYOUTS,
)
_TILES = st.builds(
    lambda modes: _or_none(fl.make_tile)(*modes),
    st.lists(st.one_of(_SMALL, _LAYOUTS, st.none(), _TUPLES), max_size=3),
)
_TENSORS = st.builds(_or_none(fl.CoordTensor), _SMALL, _LAYOUTS)
_ANYTHING = st.one_of(
    _TUPLES, _SMALL, _LAYOUTS, _LAYOUTS, _SWIZZLES, _COMPOSED, _TILES, _TENSORS, _COORD_SWIZZLES
)

# Helpers that take functions or modules, or whose arguments are checked by their class.
_NOT_OPERATIONS = {"Leaf", "IntTuple", "DynamicLeaf", "map_leaves", "leaf", "evaluate"}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    name: getattr(fl, name)
    for name in sorted(fl.__all__)
    if name not in _NOT_OPERATIONS and callable(getattr(fl, name))
} | {
    f"fx.{name}": getattr(fx, name)
    for module in (layout_functions, layout_questions, tuple_functions)
    for name in module.__all__
    if name != "described"
}
_METHODS = {
    f"{kind.__name__}.{name}": getattr(kind, name)
    for kind, names in (
        (fl.Layout, "__call__ __getitem__ get_hier_coord get_flat_coord get_1d_coord draw modes"),
        (fl.ComposedLayout, "__call__ __getitem__ draw modes with_outer"),
        (fl.CoordTensor, "__call__ __getitem__ draw modes"),
        (fl.Tile, "__getitem__"),
        (fl.Swizzle, "__call__ recast"),
        (fl.CoordSwizzle, "__call__"),
    )
    for name in names.split()
}


def _attempt(fn: Callable[..., Any], args: list[Any]) -> None:
    try:
        fn(*args)
    except UserError as error:
        if not str(error):
            pytest.fail(f"{fn.__name__} raised an error without text")
    except TypeError as error:
        # A call with the wrong number of arguments is Python's own error.
        if "argument" not in str(error) or fn.__name__ not in str(error):
            raise


@pytest.mark.parametrize("name", _OPERATIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_user_errors_escape(name: str, data: st.DataObject) -> None:
    _try_operation(name, data)


def _try_operation(name: str, data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 2, 2, 2, 3]))
    _attempt(_OPERATIONS[name], [data.draw(_ANYTHING) for _ in range(count)])


_SELVES = {
    "Layout": _LAYOUTS,
    "ComposedLayout": _COMPOSED,
    "CoordTensor": _TENSORS,
    "Tile": _TILES,
    "Swizzle": _SWIZZLES,
    "CoordSwizzle": _COORD_SWIZZLES,
}


def _try_method(name: str, data: st.DataObject) -> None:
    this = data.draw(_SELVES[name.partition(".")[0]])
    if this is None:
        return
    count = data.draw(st.sampled_from([0, 1, 1, 1, 2, 3]))
    _attempt(_METHODS[name], [this, *(data.draw(_ANYTHING) for _ in range(count))])


@pytest.mark.parametrize("name", _METHODS)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_user_errors_escape_from_methods(name: str, data: st.DataObject) -> None:
    _try_method(name, data)


@pytest.mark.nightly
@pytest.mark.parametrize("name", _METHODS)
@given(data=st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_user_errors_escape_from_methods_long(name: str, data: st.DataObject) -> None:
    _try_method(name, data)


@pytest.mark.nightly
@pytest.mark.parametrize("name", _OPERATIONS)
@given(data=st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_user_errors_escape_long(name: str, data: st.DataObject) -> None:
    _try_operation(name, data)


@given(text=st.text(alphabet="()[]<>{}:,|*?0123456789-SCEo ido=v", max_size=40))
@settings(max_examples=400, deadline=None)
def test_malformed_text_is_refused(text: str) -> None:
    try:
        value = fl.parse(text)
    except UserError:
        return
    assert fl.parse(fl.to_text(value)) == value


def _deep(levels: int) -> Any:
    out: Any = 1
    for _ in range(levels):
        out = (out,)
    return out


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: fl.make_layout((4, 8), (1,)), "nested differently"),
        (lambda: fl.make_layout((4, -8)), "negative"),
        (lambda: fl.make_layout(_deep(5000)), "too deep"),
        (lambda: fl.make_layout((1,) * 5000), "too long"),
        (lambda: fl.make_layout(()), "empty tuple"),
        (lambda: fl.make_layout((4, 2), (fl.E(0), 1)), "mixed with plain"),
        (lambda: fl.make_layout((4, 2), (fl.E(0), fl.E(0, 1))), "a part of it"),
        (lambda: fl.make_int_tuple((4, 1.5)), "something else than integers"),
        (lambda: fl.make_tile(0), "not positive"),
        (lambda: fl.Swizzle(-1, 0, 0), "mask is out of range"),
        (lambda: fl.shape_div((6, 8), 4), "neither of 6 and 4 divides"),
        (lambda: fl.int_tuple_div(4, 0), "division by zero"),
        (lambda: fl.select(fl.make_layout((4, 8)), [3]), "out of range"),
        (lambda: fl.slice(fl.make_layout((4, 8)), (1, 2)), "every mode is fixed"),
        (lambda: fl.crd2idx((1, 2, 3), fl.make_layout((4, 8))), "does not fit the shape"),
        (lambda: fl.crd2idx(fl.make_layout((4, 8)), (1, 2)), "needs a layout"),
        (
            lambda: fl.composition(fl.make_layout((8, 4), (3, 12)), fl.make_layout((3, 4), (3, 2))),
            "together pass the extent 8 of mode 0",
        ),
        (
            lambda: fl.composition(fl.make_layout((6, 1), (3, 16)), fl.make_layout(5, 4)),
            "cannot be split",
        ),
        (lambda: fl.complement(fl.make_layout((3, 2), (1, 2)), 12), "overlaps itself"),
        (lambda: fl.left_inverse(fl.make_layout((4, 3), (12, 8))), "not known to be a multiple"),
        (lambda: fl.recast_layout(fl.make_layout((4, 8), (8, 1)), 8, 6), "neither divides 3"),
        (lambda: fl.recast_layout(fl.make_layout(4, 2), 32, 16), "one mode of stride 1"),
        (
            lambda: fl.logical_divide(fl.make_layout((5, 2), (1, 10)), 3),
            "together pass the extent 5",
        ),
        (
            lambda: fl.zipped_divide(fl.make_layout((8, 8)), (2, 2, 2)),
            "more modes than the layout",
        ),
        (lambda: fl.parse("(4,8):(1,4"), "expected ')'"),
    ],
)
def test_the_message_names_the_rule(call: Callable[[], Any], rule: str) -> None:
    with pytest.raises(UserError, match=rule.replace("(", r"\(").replace(")", r"\)")):
        call()
