from __future__ import annotations

import pytest

import flydsl.expr as fx
from flydsl.errors import UserTypeError, UserValueError
from flydsl.frontend import JitFunction, KernelFunction, jit, kernel


@jit
def launcher(a: fx.Tensor, n: fx.Int32, tile: fx.Constexpr[int] = 4, *, stream: fx.Stream = None):
    pass


@kernel
def plain(a: fx.Tensor):
    pass


@kernel(name="fancy.name", known_block_size=[64, 1, 1])
def fancy(a: fx.Tensor):
    pass


def test_decorators_work_with_and_without_arguments():
    assert isinstance(launcher, JitFunction)
    assert isinstance(plain, KernelFunction)
    assert fancy.symbol == "fancy.name"
    assert fancy.known_block == (64, 1, 1)
    assert launcher.location.file == __file__


def test_parameters_are_classified_from_postponed_annotations():
    parameters = {p.name: p for p in launcher.signature.parameters}
    assert parameters["a"].dsl_type is fx.Tensor
    assert parameters["n"].dsl_type is fx.Int32
    assert parameters["tile"].constexpr
    assert parameters["tile"].default == 4
    assert parameters["stream"].stream
    assert parameters["stream"].kind == "keyword"


def test_binding_applies_defaults_in_order():
    assert launcher.bind((1, 2), {}) == {"a": 1, "n": 2, "tile": 4, "stream": None}
    assert list(launcher.bind((), {"n": 2, "a": 1})) == ["a", "n", "tile", "stream"]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {}, "is missing 'n'"),
        ((1, 2, 3, 4), {}, "takes 3 positional arguments, 4 were given"),
        ((1, 2), {"m": 3}, "has no parameter 'm'"),
        ((1, 2), {"a": 3}, "two values for 'a'"),
    ],
)
def test_wrong_calls_are_refused(args, kwargs, message):
    with pytest.raises(UserTypeError, match=message):
        launcher.bind(args, kwargs)


def test_a_kernel_outside_a_launcher_is_refused():
    with pytest.raises(RuntimeError, match="called outside a launcher"):
        plain(1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": "has space"}, UserValueError),
        ({"known_block_size": 64}, UserTypeError),
        ({"known_block_size": (64, 1)}, UserValueError),
        ({"known_block_size": (64, 1, 0)}, UserValueError),
        ({"known_block_size": (64, 1, 1.0)}, UserTypeError),
    ],
)
def test_kernel_options_are_checked(options, error):
    with pytest.raises(error):
        kernel(**options)


def test_only_plain_functions_are_decorated():
    for thing in (len, 5, launcher):
        with pytest.raises(UserTypeError, match="plain Python functions"):
            jit(thing)


def test_variable_parameter_lists_are_refused():
    @jit
    def variadic(*args):
        pass

    with pytest.raises(UserTypeError, match=r"\*args") as caught:
        variadic.signature  # noqa: B018
    assert caught.value.location.file == __file__


def test_methods_bind_one_object_per_instance():
    class Ops:
        @jit
        def run(self, x: fx.Int32):
            pass

        @staticmethod
        def other():
            pass

    first, second = Ops(), Ops()
    assert first.run is first.run
    assert first.run is not second.run
    assert first.run.instance is first
    assert [p.name for p in first.run.signature.parameters] == ["x"]


def test_calls_outside_a_trace_go_to_dispatch():
    @jit
    def f(x: fx.Int32):
        pass

    f.dispatch = lambda *args, **kwargs: ("dispatched", args, kwargs)
    assert f(3, y=4) == ("dispatched", (3,), {"y": 4})


def test_constexpr_types_are_checked():
    annotation = launcher.signature["tile"].annotation
    annotation.check("tile", 5)
    for bad in (True, 1.5, "5"):
        with pytest.raises(UserTypeError):
            annotation.check("tile", bad)
    with pytest.raises(UserTypeError, match="mutable"):
        fx.Constexpr[list].check("x", [1])
