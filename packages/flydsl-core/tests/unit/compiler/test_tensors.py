"""Tensor arguments: types, keys, guards and the values that generated code reads."""

from __future__ import annotations

import ctypes
import struct

import ml_dtypes
import numpy as np
import pytest

from flydsl.compiler.arguments import from_c_void_p, from_dlpack
from flydsl.compiler.arguments.tensors import alignment_of, describe_tensor, unit_axis
from flydsl.compiler.dispatch import MISS, argument_format, make_closure
from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import AddressSpace, Float32


def aligned(shape, dtype=np.float32, offset=0):
    """Return an array whose address is `offset` bytes past a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    store = np.zeros(size + 128, np.uint8)
    start = -store.ctypes.data % 64 + offset
    return store[start : start + size].view(dtype).reshape(shape)


def packed(spec, *values):
    """Run a closure on `values` and return the scalars that it passes to the stub."""
    seen = []

    def stub(context, data):
        seen.append(data)
        return 0

    names = {"stub": stub, "context": 0, "failure": RuntimeError, "current_stream": lambda: 9}
    call = make_closure([spec], names, implicit_stream=False)
    if call(*values) is MISS:
        return None
    return struct.unpack(argument_format([spec], False), seen[0])


class Interface:
    """A tensor of an unknown library that has an array interface."""

    def __init__(self, array, name="__array_interface__", **changes):
        self._array = array
        setattr(self, name, {**array.__array_interface__, **changes})


class Capsule:
    """A tensor of an unknown library that speaks DLPack only."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (aligned(5), '!fly.memref<f32, "global", "?:1", 16 : i64>'),
        (aligned((4, 6)), '!fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>'),
        (aligned((4, 6)).T, '!fly.memref<f32, "global", "(?,?):(1,?{i64})", 16 : i64>'),
        (aligned((4, 6))[:, ::2], '!fly.memref<f32, "global", "(?,?):(?{i64},?{i64})", 16 : i64>'),
        (aligned(8)[1:], '!fly.memref<f32, "global", "?:1", 4 : i64>'),
        (aligned(8)[2:], '!fly.memref<f32, "global", "?:1", 8 : i64>'),
        (aligned(8, np.uint8, 1), '!fly.memref<ui8, "global", "?:1", 1 : i64>'),
        (aligned(8, np.bool_), '!fly.memref<i1, "global", "?:1", 16 : i64>'),
        (aligned(8, ml_dtypes.bfloat16), '!fly.memref<bf16, "global", "?:1", 16 : i64>'),
        (aligned(8, ml_dtypes.float8_e4m3fn), '!fly.memref<f8E4M3FN, "global", "?:1", 16 : i64>'),
        (aligned(0), '!fly.memref<f32, "global", "?:1", 16 : i64>'),
    ],
)
def test_layout_is_dynamic_except_the_unit_stride(array, text):
    spec = describe_tensor(array)
    assert spec.ir_type == text
    assert spec.device == "cpu"


def test_leaves_are_pointer_then_i32_then_i64():
    array = aligned((3, 4, 8))[:, :, :5]
    spec = describe_tensor(array)
    assert [leaf.format for leaf in spec.leaves] == ["Q", "i", "i", "i", "q", "q"]
    assert packed(spec, array) == (array.ctypes.data, 3, 4, 5, 32, 8)


@pytest.mark.parametrize(
    ("shape", "strides", "axis"),
    [
        ((4, 1, 8, 1), (16, 8, 1, 1), 2),
        ((1, 1), (1, 1), 1),
        # Row-major: like rows of more elements.
        ((5, 1), (1, 1), 1),
        ((4, 5, 1), (5, 1, 1), 2),
        ((4, 5, 1), (5, 1, 9), 1),
        ((4, 1, 8, 1), (8, 8, 1, 1), 3),
        # Column-major, of one matrix.
        ((4, 5, 1), (1, 4, 1), 0),
        ((1, 5), (1, 1), 1),
        ((5, 6), (1, 1), 1),
        ((0, 8), (8, 1), 1),
        ((4, 4), (8, 2), -1),
    ],
)
def test_the_unit_axis_ignores_axes_of_extent_one_unless_row_major(shape, strides, axis):
    assert unit_axis(shape, strides) == axis


@pytest.mark.parametrize(("address", "alignment"), [(0, 16), (64, 16), (8, 8), (20, 4), (7, 1)])
def test_alignment_is_that_of_the_address_up_to_sixteen(address, alignment):
    assert alignment_of(address) == alignment


def test_one_closure_serves_other_sizes_of_the_same_kind():
    spec = describe_tensor(aligned((4, 6)))
    other = aligned((7, 100))[:, :3]
    assert packed(spec, other) == (other.ctypes.data, 7, 3, 100)


@pytest.mark.parametrize(
    "other",
    [
        aligned((4, 6), np.float64),
        aligned((4, 6, 2)),
        aligned((4, 6)).T,
        aligned((4, 6))[:, 1:],
        [1, 2],
        None,
    ],
    ids=["dtype", "rank", "order", "alignment", "list", "none"],
)
def test_guards_refuse_what_needs_another_specialisation(other):
    assert packed(describe_tensor(aligned((4, 6))), other) is None


def test_no_unit_stride_does_not_swallow_arrays_that_have_one():
    spec = describe_tensor(aligned((4, 6))[:, ::2])
    assert packed(spec, aligned((4, 6))) is None


def test_extents_from_two_to_the_31_are_64_bits_wide():
    # A broadcast view reaches any extent without owning it.
    huge = np.broadcast_to(aligned(1, np.uint8), 2**31)
    spec = describe_tensor(huge)
    assert spec.ir_type == '!fly.memref<ui8, "global", "?{i64}:?{i64}", 16 : i64>'
    assert packed(spec, huge) == (huge.ctypes.data, 2**31, 0)
    assert packed(spec, np.broadcast_to(aligned(1, np.uint8), 2**31 - 1)) is None
    small = describe_tensor(np.broadcast_to(aligned(1, np.uint8), 5))
    assert packed(small, huge) is None


def test_array_interface_and_dlpack_give_the_same_type_as_the_array():
    array = aligned((4, 6))[:, :5]
    expected = describe_tensor(array)
    for value in (Interface(array), Capsule(array)):
        spec = describe_tensor(value)
        assert (spec.ir_type, spec.device) == (expected.ir_type, "cpu")
        assert packed(spec, value) == packed(expected, array)


def test_missing_strides_mean_row_major():
    array = aligned((2, 3, 4))
    spec = describe_tensor(Interface(array, strides=None))
    assert packed(spec, Interface(array, strides=None)) == (array.ctypes.data, 2, 3, 4, 12, 4)


def test_cuda_interface_is_a_device_tensor():
    assert describe_tensor(Interface(aligned(4), "__cuda_array_interface__")).device == "cuda:0"


def test_unsupported_data_type():
    with pytest.raises(UserTypeError, match="complex64") as caught:
        describe_tensor(np.zeros(3, np.complex64))
    assert "float32" in caught.value.allowed
    with pytest.raises(UserTypeError, match="complex64"):
        describe_tensor(Interface(np.zeros(3, np.complex64)))


def test_other_byte_order():
    with pytest.raises(UserTypeError, match="byte order"):
        describe_tensor(np.zeros(3, ">f4"))


def test_fields_of_records_are_refused():
    records = np.zeros(4, np.dtype([("a", "u1"), ("b", "<f4")]))
    with pytest.raises(UserTypeError, match="no multiple of its element size"):
        describe_tensor(records["b"])
    plain = describe_tensor(aligned(4))
    assert packed(plain, records["b"]) is None


def test_no_axes():
    with pytest.raises(UserValueError, match="without axes"):
        describe_tensor(np.float32(1).reshape(()))


@pytest.mark.parametrize("value", [5, 1.5, "text", None, [1.0], object()])
def test_other_values_are_no_tensors(value):
    assert describe_tensor(value) is None


def test_wrapper_is_static_until_marked():
    argument = from_dlpack(aligned((4, 8)))
    assert argument.spec().ir_type == '!fly.memref<f32, "global", "(4,8):(8,1)", 16 : i64>'
    assert packed(argument.spec(), argument) == (argument.address,)
    argument.mark_shape_dynamic(0, 2).mark_stride_dynamic([-2], [8])
    spec = argument.spec()
    assert spec.ir_type == ('!fly.memref<f32, "global", "(?{div=2},8):(?{i64 div=8},1)", 16 : i64>')
    assert packed(spec, argument) == (argument.address, 4, 8)
    assert packed(spec, from_dlpack(aligned((4, 8)))) is None


def test_wrapper_with_all_dynamic_layout():
    argument = from_dlpack(aligned((4, 8)), use_32bit_stride=True).mark_layout_dynamic()
    assert argument.spec().ir_type == '!fly.memref<f32, "global", "(?,?):(?,1)", 16 : i64>'
    assert packed(argument.spec(), argument) == (argument.address, 4, 8, 8)


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (lambda a: a.mark_shape_dynamic(2), "no such axis"),
        (lambda a: a.mark_shape_dynamic(0, 3), "power of two"),
        (lambda a: a.mark_shape_dynamic(0, 8), "no multiple"),
        (lambda a: a.mark_shape_dynamic(0, [1]), "one divisibility"),
        (lambda a: a.mark_shape_dynamic([0, 1], [1]), "as many"),
        (lambda a: a.mark_layout_dynamic(leading_dim=5), "no such axis"),
    ],
)
def test_marks_are_checked(mark, reason):
    with pytest.raises(UserValueError, match=reason):
        mark(from_dlpack(aligned((4, 8))))


def test_assumed_alignment_is_checked():
    assert from_dlpack(aligned(4), assumed_align=4).alignment == 4
    with pytest.raises(UserValueError, match="does not have the assumed alignment"):
        from_dlpack(aligned(4, offset=4), assumed_align=16)
    with pytest.raises(UserValueError, match="power of two"):
        from_dlpack(aligned(4), assumed_align=12)


def test_a_view_outlives_its_expression():
    # The closure's own temporary must keep an exported capsule alive during the call.
    array = aligned(4)
    array[:] = 7
    spec = describe_tensor(Capsule(array))
    address, extent = packed(spec, Capsule(array))
    assert (ctypes.c_float * extent).from_address(address)[:] == [7.0] * 4


def test_masked_arrays_are_refused_however_they_arrive():
    masked = np.ma.masked_array(aligned(4), [0, 1, 0, 0])
    for value in (masked, Interface(aligned(4), mask=aligned(4) > 0)):
        with pytest.raises(UserTypeError, match=r"mask.*FLY-U402"):
            describe_tensor(value)
        with pytest.raises(UserTypeError, match=r"mask.*FLY-U402"):
            from_dlpack(value)


def test_an_array_interface_without_an_address_is_refused():
    for data in (None, bytearray(16)):
        with pytest.raises(UserTypeError, match=r"names no address.*FLY-U402"):
            describe_tensor(Interface(aligned(4), data=data))


def test_what_a_library_cannot_export_is_a_miss_that_the_slow_path_explains():
    spec = describe_tensor(Interface(aligned(4)))
    assert packed(spec, Interface(aligned(4), data=None)) is None


def test_read_only_memory_is_known_through_dlpack():
    array = aligned(4)
    assert not describe_tensor(Capsule(array)).read_only
    array.setflags(write=False)
    spec = describe_tensor(Capsule(array))
    assert spec.read_only
    assert packed(spec, Capsule(array))[0] == array.ctypes.data
    assert packed(spec, Capsule(aligned(4))) is None


class OldCapsule(Capsule):
    def __dlpack__(self, *, stream=None):
        return self._array.__dlpack__()


def test_libraries_with_the_first_version_of_dlpack():
    array = aligned((3, 4))[:, 1:]
    spec = describe_tensor(OldCapsule(array))
    assert packed(spec, OldCapsule(array)) == packed(describe_tensor(array), array)


def test_the_device_of_a_cuda_interface_is_asked_for():
    value = Interface(aligned(4), "__cuda_array_interface__")
    assert describe_tensor(value).device == "cuda:0"
    value.__dlpack_device__ = lambda: (10, 3)
    assert describe_tensor(value).device == "cuda:3"
    assert from_dlpack(value).device == "cuda:3"


def test_marks_take_integers_of_numpy():
    array = aligned((8, 16))
    marked = from_dlpack(array).mark_shape_dynamic(np.int64(-1), np.int32(4))
    assert marked.key == from_dlpack(array).mark_shape_dynamic([1], [4]).key
    for wrong in (None, 1.0, "0", True):
        with pytest.raises(UserValueError, match=r"no such axis.*FLY-U410"):
            from_dlpack(array).mark_stride_dynamic(wrong)
    with pytest.raises(UserValueError, match="power of two"):
        from_dlpack(array).mark_shape_dynamic(0, 2.0)


def test_strides_that_need_more_than_32_bits():
    wide = np.lib.stride_tricks.as_strided(aligned(4), (2, 2), (2**34, 4))
    assert from_dlpack(wide).mark_layout_dynamic().spec().leaves[-1].format == "q"
    with pytest.raises(UserValueError, match=r"32 bits.*FLY-U410"):
        from_dlpack(wide, use_32bit_stride=True).mark_layout_dynamic().spec()


def test_addresses_are_checked():
    pointer = from_c_void_p(Float32, np.uint64(64))
    assert (pointer.address, pointer.alignment) == (64, 4)
    assert from_c_void_p(Float32, ctypes.c_void_p(None)).address == 0
    for wrong in (-4, 2**64, True, 4.0, "4"):
        with pytest.raises((UserTypeError, UserValueError), match="FLY-U412"):
            from_c_void_p(Float32, wrong)
    for space in ("shared", "register", AddressSpace.Shared):
        with pytest.raises(UserValueError, match=r"only a kernel.*FLY-U412"):
            from_c_void_p(Float32, 64, address_space=space)
