"""torch tensors, recognised without importing torch: a module of the same shape stands in."""

from __future__ import annotations

import ctypes
import struct
import sys
from types import ModuleType

import pytest

from flydsl.compiler.arguments import from_torch_tensor
from flydsl.compiler.arguments.tensors import describe_tensor
from flydsl.compiler.dispatch import MISS, make_closure
from flydsl.errors import UserTypeError, UserValueError


class DType:
    """Prints as torch's data types do and is compared by identity, as they are."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"


FLOAT32, BFLOAT16, COMPLEX64 = DType("float32"), DType("bfloat16"), DType("complex64")


class Device:
    """Stands in for `torch.device`."""

    def __init__(self, text):
        self.type, _, index = text.partition(":")
        self.index = int(index) if index else None
        self._text = text

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(self._text)

    def __str__(self):
        return self._text


class Tensor:
    """The part of a torch tensor that launches read."""

    def __init__(self, shape, strides, dtype=FLOAT32, device="cpu", offset=0):
        self.store = ctypes.create_string_buffer(4096)
        base = ctypes.addressof(self.store)
        self._address = base + (-base % 64) + offset
        self.shape, self._strides = shape, strides
        self.dtype, self.device = dtype, Device(device)
        self.is_cpu = self.device.type == "cpu"
        self.is_cuda = self.device.type == "cuda"
        self.layout = "torch.strided"
        self.negated = self.is_nested = self.is_quantized = False

    def is_neg(self):
        return self.negated

    def is_conj(self):
        return False

    def get_device(self):
        return -1 if self.device.index is None else self.device.index

    def data_ptr(self):
        return self._address

    def stride(self):
        return self._strides

    def __dlpack__(self):
        raise BufferError("a tensor that requires grad does not export DLPack")


class Parameter(Tensor):
    """A subclass of a tensor."""


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    module = ModuleType("torch")
    module.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)


def packed(spec, value):
    seen = []

    def stub(context, data):
        seen.append(data)
        return 0

    names = {"stub": stub, "context": 0, "failure": RuntimeError, "current_stream": int}
    call = make_closure([spec], names, implicit_stream=False)
    if call(value) is MISS:
        return None
    return struct.unpack("@" + "".join(leaf.format for leaf in spec.leaves), seen[0])


def test_the_default_layout_is_dynamic():
    tensor = Tensor((4, 6), (8, 1))
    spec = describe_tensor(tensor)
    assert spec.ir_type == '!fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>'
    assert spec.device == "cpu"
    assert packed(spec, tensor) == (tensor.data_ptr(), 4, 6, 8)
    other = Tensor((2, 3), (100, 1))
    assert packed(spec, other) == (other.data_ptr(), 2, 3, 100)


@pytest.mark.parametrize(
    "other",
    [
        Tensor((4, 6), (8, 1), BFLOAT16),
        Tensor((4, 6), (8, 1), device="cuda:0"),
        Tensor((4, 6), (8, 1), device="xpu:0"),
        Tensor((4, 6), (1, 4)),
        Tensor((4,), (1,)),
        Tensor((4, 6), (8, 1), offset=4),
        Parameter((4, 6), (8, 1)),
    ],
    ids=["dtype", "device", "foreign device", "order", "rank", "offset", "subclass"],
)
def test_other_kinds_need_another_closure(other):
    spec = describe_tensor(Tensor((4, 6), (8, 1)))
    assert packed(spec, other) is None
    assert packed(describe_tensor(other), other) is not None


def test_subclasses_share_the_compilation():
    assert describe_tensor(Parameter((4,), (1,))).key == describe_tensor(Tensor((9,), (1,))).key


def test_device_is_not_part_of_the_compilation():
    on_device = describe_tensor(Tensor((4,), (1,), device="cuda:1"))
    assert on_device.device == "cuda:1"
    assert on_device.key == describe_tensor(Tensor((4,), (1,))).key


def test_data_types():
    assert "<bf16," in describe_tensor(Tensor((4,), (1,), BFLOAT16)).ir_type
    with pytest.raises(UserTypeError, match="complex64"):
        describe_tensor(Tensor((4,), (1,), COMPLEX64))


def test_static_wrapper():
    tensor = Tensor((4, 6), (8, 1))
    argument = from_torch_tensor(tensor)
    assert argument.spec().ir_type == '!fly.memref<f32, "global", "(4,6):(8,1)", 16 : i64>'
    assert argument.keep is tensor


def test_a_negated_view_is_refused_at_first_and_later():
    tensor = Tensor((4,), (2,))
    spec = describe_tensor(tensor)
    assert packed(spec, tensor) is not None
    tensor.negated = True
    assert packed(spec, tensor) is None
    for describe in (describe_tensor, from_torch_tensor):
        with pytest.raises(UserTypeError, match="resolve_neg"):
            describe(tensor)


def test_a_tensor_with_elements_but_without_memory_is_refused():
    tensor, empty = Tensor((4, 2), (2, 1)), Tensor((0, 2), (2, 1))
    spec = describe_tensor(tensor)
    tensor._address = empty._address = 0
    assert packed(spec, tensor) is None
    assert packed(spec, empty) == (0, 0, 2, 2)
    assert describe_tensor(empty).ir_type == spec.ir_type
    for describe in (describe_tensor, from_torch_tensor):
        with pytest.raises(UserValueError, match="address is 0"):
            describe(tensor)


def test_other_layouts_than_strided_are_refused():
    tensor = Tensor((4,), (1,))
    tensor.layout = "torch.sparse_coo"
    with pytest.raises(UserTypeError, match="to_dense"):
        describe_tensor(tensor)
