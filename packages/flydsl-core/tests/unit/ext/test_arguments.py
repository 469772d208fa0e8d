"""Arguments of ready operations: their kinds, and tensors that kernels cannot read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.errors import FlyDSLError, TargetError, UserTypeError, UserValueError
from flydsl.ext import arguments
from flydsl.runtime import choose_placement

X = np.ones((2, 3), np.float32)


def _refused(call, code, *words):
    with pytest.raises(FlyDSLError) as caught:
        call()
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)
    return caught.value


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="looks at PyTorch tensors")


def test_plain_arrays_are_taken(torch):
    tensor = torch.ones(2, 3)
    assert not arguments.through_pytorch(True, {"x": X}, weight=None, bias=X[0])
    assert not arguments.through_pytorch(
        True, {"x": tensor}, weight=torch.nn.Parameter(tensor[0].clone(), False)
    )
    wanted = torch.ones(3, requires_grad=True)
    assert arguments.through_pytorch(True, {"x": tensor}, weight=wanted)
    assert not arguments.through_pytorch(None, {"x": tensor}, weight=wanted)
    with torch.no_grad():
        assert not arguments.through_pytorch(True, {"x": tensor}, weight=wanted)
        assert not arguments.through_pytorch(False, {"x": tensor}, weight=wanted)


def test_gradients_that_would_be_lost_are_refused(torch):
    wanted = torch.ones(3, requires_grad=True)
    call = arguments.through_pytorch
    _refused(
        lambda: call(False, {"x": torch.ones(3)}, weight=wanted), "FLY-U550", "weight", "no_grad"
    )
    assert not call(False, {"x": wanted.detach()})
    assert not call(False, {"x": X})


def test_other_kinds_and_mixtures_are_refused_by_name(torch):
    check = arguments.through_pytorch
    _refused(lambda: check(True, {"x": X}, weight=[1.0]), "FLY-U540", "weight is neither", "'list'")
    _refused(lambda: check(True, {"x": None}), "FLY-U540", "x is neither")
    _refused(lambda: check(True, {"x": X, "y": "a"}), "FLY-U540", "y is neither", "'str'")
    _refused(
        lambda: check(True, {"x": X}, weight=torch.ones(3)), "FLY-U541", "weight is of another"
    )
    _refused(lambda: check(True, {"x": torch.ones(3)}, w=X), "FLY-U541", "w is of another")
    meta = torch.ones(3, device="meta")
    _refused(lambda: check(True, {"x": torch.ones(3)}, w=meta), "FLY-U541", "meta")


@pytest.mark.parametrize(("array", "words"), [
    (np.ma.masked_array(X, X > 0), "mask"),
    (np.zeros(6, [("a", "f4"), ("b", "i2")])["a"], "records"),
    (X.astype(">f4"), "byte order"), (np.zeros(3, "V0"), "numbers"),
    (np.zeros(3, [("a", "f4")]), "numbers"), (np.array(["a"]), "numbers"),
    (np.array([object()]), "numbers"), (np.zeros(2, "M8[s]"), "numbers"),
])  # fmt: skip
def test_arrays_that_kernels_would_misread(array, words):
    _refused(lambda: arguments.through_pytorch(True, {"x": array}), "FLY-U547", "x is", words)


# PyTorch warns about itself: of kinds of tensors that are new to it, and of what it uses itself.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_tensors_without_plain_memory(torch):
    x = torch.ones(2, 3)
    negated = torch.ones(2, 3, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    for tensor, words in (
        (x.to_sparse(), "layout torch.sparse_coo"), (x.to_sparse_csr(), "to_dense"),
        (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "quantised"),
        (torch.nested.nested_tensor([x, x]), "nested"),
        (torch.nested.nested_tensor([x, x], layout=torch.jagged), "nested"),
        (negated, "x.resolve_neg()"),
    ):  # fmt: skip
        for operator in (False, True):
            _refused(
                lambda t=tensor, o=operator: arguments.through_pytorch(o, {"x": t}),
                "FLY-U547",
                words,
            )


def test_tensors_that_only_have_shapes_go_to_an_operator(torch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    meta = torch.ones(2, 3, device="meta")
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(2, 3))
        assert arguments.through_pytorch(True, {"x": fake})
    for tensor, words in ((meta, "meta device"), (fake, "FakeTensor")):
        assert arguments.through_pytorch(True, {"x": tensor})
        _refused(
            lambda t=tensor: arguments.through_pytorch(False, {"x": t}), "FLY-U547", words, "out="
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transformations_of_functions_are_refused(torch):
    x = torch.ones(2, 3)

    def call(t):
        arguments.through_pytorch(True, {"x": t})
        return t.sum()

    _refused(lambda: torch.vmap(call)(x), "FLY-U547", "torch.vmap", "axis")
    _refused(lambda: torch.func.grad(call)(x), "FLY-U547", "torch.func", "backward()")
    _refused(lambda: torch.vmap(torch.func.grad(call))(x), "FLY-U547", "differentiated")
    _refused(lambda: torch.func.jvp(call, (x,), (x,)), "FLY-U547", "forward mode")
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(x, torch.ones_like(x))
        _refused(lambda: arguments.through_pytorch(True, {"x": dual}), "FLY-U547", "forward mode")
        assert not arguments.through_pytorch(True, {"x": x})


def test_results_have_nothing_in_common(torch):
    for whole in (np.zeros((4, 8), np.float32), torch.zeros(4, 8)):
        arguments.check_results_apart(out=whole[:, :4], sums=whole[:, 4:], more=None)
        arguments.check_results_apart(out=whole, sums=None)
        for second in (whole, whole[2:], whole[:, ::3]):
            error = _refused(
                lambda w=whole, s=second: arguments.check_results_apart(out=w[1:], sums=s),
                "FLY-U548", "out and sums",
            )  # fmt: skip
            assert isinstance(error, UserValueError)


def test_scalars():
    assert arguments.as_integer(np.int64(3), "n") == 3
    assert type(arguments.as_integer(np.uint8(3), "n")) is int
    assert arguments.as_number(3, "n") == 3.0
    assert type(arguments.as_number(np.float32(0.5), "n")) is float
    assert arguments.as_number(-(10**400), "n") == float("-inf")
    assert arguments.as_flag(np.True_, "f") is True
    assert arguments.as_pair([1, None], "p") == (1, None)
    for check, wrong in (
        (arguments.as_integer, (2.0, "2", None, True, X[0, 0], np.ones(1, np.int32))),
        (arguments.as_number, ("a", None, False, 1j, np.ones(()))),
        (arguments.as_flag, (1, 0, "no", None, np.ones(1, bool))),
        (arguments.as_text, (1, None, b"a", ["a"])),
        (arguments.as_pair, (1, None, "ab", (1,), (1, 2, 3))),
    ):  # fmt: skip
        for value in wrong:
            error = _refused(lambda c=check, v=value: c(v, "size"), "FLY-U549", "size is no")
            assert isinstance(error, UserTypeError)
            assert error.value is value
    assert "x.item()" in _refused(lambda: arguments.as_integer(X, "n"), "FLY-U549").hint


def test_element_types_by_any_name(torch):
    for value in ("float32", "torch.float32", np.float32, np.dtype("f"), torch.float32):
        assert arguments.element_type(value, "out_dtype") == "float32"
    small = (ml_dtypes.float8_e4m3fn, np.dtype(ml_dtypes.float8_e4m3fn), torch.float8_e4m3fn)
    assert {arguments.element_type(value, "d") for value in small} == {"float8_e4m3fn"}
    assert arguments.element_type(float, "d") == "float64"
    for value in (3, None, X, np.dtype(">f4"), object, [1], type("Foo", (), {})):
        _refused(lambda v=value: arguments.element_type(v, "d"), "FLY-U549", "d is no element type")


@dataclass(frozen=True, slots=True)
class _Options:
    size: int
    factor: float = 1.0
    fast: bool = False
    name: str | None = None
    inner: _Options | None = None
    array: Any = None
    pair: tuple[int, int] = (1, 2)

    def __post_init__(self):
        arguments.check_fields(self)


def test_fields_of_a_dataclass():
    made = _Options(np.int32(3), 2, np.False_, None, _Options(1), "anything")
    assert (type(made.size), type(made.factor), type(made.fast)) == (int, float, bool)
    for fields in (
        {"size": 2.0}, {"size": None}, {"size": 1, "factor": "x"}, {"size": 1, "fast": 1},
        {"size": 1, "name": 3}, {"size": 1, "inner": 3},
    ):  # fmt: skip
        name = list(fields)[-1]
        _refused(lambda f=fields: _Options(**f), "FLY-U549", f"{name} is no")


@pytest.mark.parametrize(("kind", "words"), [
    ("meta", "no elements"), ("mps", "move the tensors to a device that is served"),
])  # fmt: skip
def test_advice_for_tensors_that_nothing_serves(kind, words):
    with pytest.raises(TargetError) as caught:
        choose_placement([kind])
    assert caught.value.code == "FLY-T451"
    assert words in caught.value.hint
    assert "install an emulator" not in caught.value.hint
