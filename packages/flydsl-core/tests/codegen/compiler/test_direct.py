"""The native closures accept and pack exactly what the Python closures do."""

from __future__ import annotations

import ctypes
import gc
import random
import struct
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.compiler.arguments.compile_time import describe_static
from flydsl.compiler.arguments.scalars import describe_number, describe_stream
from flydsl.compiler.arguments.structs import describe_struct
from flydsl.compiler.arguments.tensors import describe_tensor
from flydsl.compiler.direct import Direct, make_direct
from flydsl.compiler.dispatch import MISS, argument_format, make_closure
from flydsl.errors import UserTypeError
from flydsl.expr import (
    Boolean,
    Float16,
    Float32,
    Float64,
    Int8,
    Int32,
    Int64,
    Stream,
    Uint8,
    Uint64,
)
from flydsl.plugins.payloads import ArgSpec

STUB = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Recorder:
    """A stub that keeps the packed arguments."""

    def __init__(self, size, status=0):
        self.blocks = []
        self.contexts = []
        self.status = status

        def stub(context, block):
            self.contexts.append(context)
            self.blocks.append(ctypes.string_at(block, size))
            return self.status

        self.function = STUB(stub)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def target(self, **fields):
        failure = fields.pop("failure", lambda status: ZeroDivisionError(f"status {status}"))
        return Direct(self.address, 4242, failure, kept=self, **fields)


def both(specs, values, *, implicit_stream=False, check_static=True, current=lambda: 77):
    """Return what the native and the Python closure pack for `values`; None for a miss."""
    size = struct.calcsize(argument_format(specs, implicit_stream))
    recorder = Recorder(size)
    options = {"implicit_stream": implicit_stream, "check_static": check_static}
    direct = make_direct(specs, recorder.target(current_stream=current), **options)
    assert direct is not None
    seen = []
    names = {
        "stub": lambda _, data: seen.append(data),
        "context": 0,
        "failure": RuntimeError,
        "current_stream": current,
    }
    closure = make_closure(specs, names, **options)
    native = None if direct(*values) is MISS else recorder.blocks[-1]
    python = None if closure(*values) is MISS else seen[-1]
    return native, python


def padded(specs, block):
    """Zero the padding between the scalars, which only the Python closure clears."""
    layout = argument_format(specs, False)
    return None if block is None else struct.pack(layout, *struct.unpack(layout, block))


NUMBERS = [
    (Int8, 5), (Uint8, 5), (Int32, 5), (Int64, 5), (Uint64, 5), (Boolean, True),
    (Float32, 1.5), (Float64, 1.5),
]  # fmt: skip
EDGES = [
    0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, True, False,
    0.0, -0.0, 1.1, 1e300, -1e300, 3.4028235677973366e38, 3.4028235677973362e38, 5e-324,
    float("inf"), float("-inf"), float("nan"), None, "1", 1j,
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "sample"), NUMBERS, ids=lambda value: getattr(value, "__name__", "")
)
def test_numbers_at_the_edges_of_their_range(kind, sample):
    spec = describe_number(sample, kind)
    for value in EDGES:
        native, python = both([spec], [value])
        assert native == python, value


def test_random_integers_of_all_widths():
    draw = random.Random(1)
    specs = [describe_number(1, kind) for kind in (Int8, Int32, Int64, Uint64, Uint8)]
    for _ in range(300):
        values = [draw.randrange(-(2**65), 2**65) >> draw.randrange(66) for _ in specs]
        native, python = both(specs, values)
        assert padded(specs, native) == python, values


def test_an_index_like_that_is_no_int_is_left_to_the_python_closure():
    class Indexed:
        def __index__(self):
            return 3

    native, python = both([describe_number(1, Int32)], [Indexed()])
    assert native is None
    assert python is None


def test_streams():
    class Library:
        def __init__(self, handle, index=None):
            self.cuda_stream, self.device_index = handle, index

    pairs = [(7, 9), (Stream(7), Stream(2**64 - 1)), (None, None), (Library(5), Library(6))]
    pairs += [(Library(5, 1), Library(6, 1)), (Stream(Library(5, 1)), Stream(Library(6, 1)))]
    for sample, value in pairs:
        native, python = both([describe_stream(sample)], [value])
        assert native == python
        assert native is not None
    for sample, value in [(Library(5, 1), Library(5, 0)), (Stream(Library(5, 1)), Stream(5))]:
        assert both([describe_stream(sample)], [value]) == (None, None)
    # A stream object that means the current one is for the Python closure.
    native, python = both([describe_stream(Stream(7))], [Stream(None)])
    assert native is None
    assert python == struct.pack("Q", 77)
    # An attribute that has become something else.
    for broken in ("text", -1, None):
        assert both([describe_stream(Library(5))], [Library(broken)])[0] is None


def test_a_failing_current_stream_is_a_miss_and_leaves_no_exception_behind():
    def current():
        raise OSError("driver")

    specs = [describe_number(1, Int32)]
    recorder = Recorder(16)
    direct = make_direct(specs, recorder.target(current_stream=current), implicit_stream=True)
    assert direct(1) is MISS
    assert recorder.blocks == []


def test_the_implicit_stream_follows_the_arguments():
    native, python = both([describe_number(1, Int32)], [3], implicit_stream=True)
    assert native[8:] == python[8:] == struct.pack("Q", 77)
    assert native[:4] == python[:4]


def test_compile_time_values():
    specs = [
        describe_static("n", 5, None),
        describe_static("t", (1, 2), None),
        describe_number(1, Int32),
    ]
    pair = specs[1].static
    assert both(specs, [5, pair, 3])[0] == struct.pack("i", 3)
    assert both(specs, [True, pair, 3])[0] is None
    assert both(specs, [5, tuple([1, 2]), 3])[0] == struct.pack("i", 3)  # noqa: C409 - a new object
    assert both(specs, [5, (1, 2.0), 3]) == (None, None)


@dataclass(frozen=True)
class Tile:
    size: object
    note: object = field(default=0, compare=False)


@dataclass(unsafe_hash=True)
class Changing:
    size: int = field(hash=False, compare=False)


def test_compile_time_objects_are_compared_by_what_they_hold():
    specs = [describe_static("tile", Tile(1), None), describe_number(1, Int32)]
    packed, changing = struct.pack("i", 3), Changing(4)
    assert both(specs, [Tile(1), 3]) == (packed, packed)
    others = (Tile(True), Tile(1.0), Tile(1, note=1), Tile(2), None, (1, 0))
    assert all(both(specs, [other, 3]) == (None, None) for other in others)
    specs = [describe_static("c", changing, None), describe_number(1, Int32)]
    assert both(specs, [changing, 3]) == (packed, packed)
    changing.size = 5
    assert both(specs, [changing, 3]) == (None, None)


def test_compiled_functions_take_their_compile_time_value_or_none_in_its_place():
    named = [("n", 5000, fx.Constexpr[int]), ("t", (1, 2), fx.Constexpr[tuple])]
    named += [("f", 0.0, fx.Constexpr[float]), ("any", 7, None), ("none", None, None)]
    known = [describe_static(*one) for one in named]
    specs = [*known, describe_number(1, Int32)]
    plain = [value for _, value, _ in named]
    packed = struct.pack("i", 3)

    def given(at, value):
        values = [*plain[:at], value, *plain[at + 1 :], 3]
        return both(specs, values, check_static=False)

    fits = [(0, int("5000")), (0, None), (3, 7), (1, plain[1])]
    assert all(given(*case) == (packed, packed) for case in fits)
    # Only Python can tell that these are equal.
    slow = [(0, np.int32(5000)), (1, tuple([1, 2])), (2, float("0"))]  # noqa: C409
    assert all(given(*case)[1] == packed for case in slow)
    wrong = [(0, 5001), (0, 2**70), (0, np.int64(1)), (1, (1, 3)), (1, (1.0, 2)), (2, -0.0)]
    wrong += [(3, None), (3, True), (3, "x"), (3, [7]), (4, 0)]
    wrong += [(0, "5000"), (0, 5000.0), (0, True), (0, [5000]), (1, [1, 2]), (2, 0)]
    assert all(given(*case) == (None, None) for case in wrong)


def test_a_wrong_number_of_arguments_is_a_miss():
    recorder = Recorder(8)
    direct = make_direct([describe_number(1, Int32)], recorder.target(), implicit_stream=False)
    assert direct() is MISS
    assert direct(1, 2) is MISS


def test_what_only_python_can_read_has_no_native_closure():
    recorder = Recorder(8)
    half = describe_number(1.0, Float16)
    assert make_direct([half], recorder.target(), implicit_stream=False) is None
    many = [describe_number(1, Int64)] * 200
    assert make_direct(many, recorder.target(), implicit_stream=False) is None
    unknown = ArgSpec(key=1, ir_type="i32")
    assert make_direct([unknown], recorder.target(), implicit_stream=False) is None


def test_a_failed_launch_raises_what_is_behind_its_status():
    recorder = Recorder(8, status=-7)
    direct = make_direct([describe_number(1, Int32)], recorder.target(), implicit_stream=False)
    with pytest.raises(ZeroDivisionError, match="status -7"):
        direct(1)
    recorder.status = 0
    assert direct(1) is None
    assert recorder.contexts == [4242, 4242]


def test_calls_do_not_leak():
    values = [object(), 12345678901234567890]
    specs = [describe_static("o", values[0], None), describe_number(values[1], Uint64)]
    recorder = Recorder(8)
    direct = make_direct(specs, recorder.target(), implicit_stream=False)
    watched = [None, MISS, values[0], values[1], Stream(3)]
    direct(*values)
    before = [sys.getrefcount(item) for item in watched]
    for _ in range(1000):
        direct(*values)
        direct(1, 2)
        direct(values[0], "text")
    recorder.blocks.clear()
    after = [sys.getrefcount(item) for item in watched]
    assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True))


def test_the_plan_keeps_what_it_refers_to():
    recorder = Recorder(8)
    direct = make_direct([describe_stream(Stream(1))], recorder.target(), implicit_stream=False)
    blocks = recorder.blocks
    del recorder
    gc.collect()
    direct(Stream(99))
    assert blocks == [struct.pack("Q", 99)]


torch = pytest.importorskip("torch", reason="tensors that offer the exchange functions are torch's")


def tensors():
    base = torch.arange(240, dtype=torch.float32)
    yield from (
        base,
        base[4:],
        base[1:],
        base[2:50],
        base[::2],
        base.view(12, 20),
        base.view(12, 20).t(),
        base.view(12, 20)[:, ::2],
        base.view(12, 20)[:, :1],
        base.view(12, 20)[:1],
        base.view(240, 1),
        base.view(1, 240),
        base.view(1, 240).expand(5, 240),
        base.view(3, 4, 20),
        torch.zeros(0, 8),
        torch.zeros(8, 0),
        torch.zeros(1, 1, 1),
        base.to(torch.bfloat16),
        base.to(torch.float16),
        base.to(torch.float8_e4m3fnuz),
        base.to(torch.int64),
        base > 3,
        base.clone().requires_grad_(),
        torch.nn.Parameter(base.clone()),
        base[:1].expand(7),
    )


def test_every_tensor_against_every_specification():
    samples = list(tensors())
    hits = 0
    for sample in samples:
        spec = describe_tensor(sample)
        for value in samples:
            native, python = both([spec], [value])
            assert padded([spec], native) == python, (sample.shape, value.shape, value.stride())
            hits += native is not None
    assert hits >= len(samples)


@fx.struct
class Inputs(fx.Struct):
    a: fx.Tensor
    count: fx.Int32
    mode: fx.Constexpr[int]
    scale: fx.Float32
    stream: fx.Stream
    b: fx.Tensor


@fx.struct
class Others(fx.Struct):
    a: fx.Tensor


@fx.struct
class Nested(fx.Struct):
    inner: Others
    n: fx.Int32


def test_structs():
    samples = list(tensors())[:12]
    draw = random.Random(5)

    def made(mode=3):
        chosen = draw.sample(samples, 2)
        count, scale = draw.randrange(-(2**31), 2**31), draw.uniform(-9, 9)
        return Inputs(chosen[0], count, mode, scale, Stream(draw.randrange(100)), chosen[1])

    hits = 0
    for _ in range(200):
        value = made()
        specs = [describe_number(1, Int32), describe_struct(value, None), describe_number(1, Int64)]
        others = [value, made(), Others(samples[0]), (1,), None]
        same = value.replace(count=5, scale=0.5, stream=Stream(9), b=value.b)
        for given in (*others, same, value.replace(mode=4)):
            for first in (7, "x"):
                native, python = both(specs, [first, given, 9])
                assert padded(specs, native) == python
                hits += native is not None
    assert hits > 300


def test_compile_time_fields_are_always_compared():
    value = Inputs(torch.zeros(4), 1, 3, 1.0, Stream(0), torch.zeros(4))
    spec = describe_struct(value, None)
    for mode, accepted in ((3, True), (4, False)):
        seen = both([spec], [value.replace(mode=mode)], check_static=False)
        assert [one is not None for one in seen] == [accepted] * 2


def test_structs_in_structs_are_left_to_python():
    value = Nested(Others(torch.zeros(4)), 3)
    recorder = Recorder(64)
    spec = describe_struct(value, None)
    assert make_direct([spec], recorder.target(), implicit_stream=False) is None


def test_calls_with_structs_do_not_leak():
    value = Inputs(torch.zeros(4), 1000, 3, 1.5, Stream(0), torch.zeros(4))
    spec = describe_struct(value, None)
    recorder = Recorder(512)
    direct = make_direct([spec], recorder.target(), implicit_stream=False)
    watched = [value, value._values, value.a, value.stream, value.scale]
    direct(value)
    before = [sys.getrefcount(item) for item in watched]
    for _ in range(500):
        direct(value)
        direct(Others(value.a))
    assert [sys.getrefcount(item) for item in watched] == before


def test_extents_beyond_32_bits():
    small = torch.zeros(4)
    # Stride 0: an extent without the memory behind it.
    large = small.as_strided((2**31,), (0,))
    limit = small.as_strided((2**31 - 1,), (0,))
    other = small.as_strided((9,), (0,))
    for sample in (large, limit):
        spec = describe_tensor(sample)
        for value in (large, limit, other):
            native, python = both([spec], [value])
            assert padded([spec], native) == python
    assert both([describe_tensor(large)], [limit])[0] is None
    assert both([describe_tensor(other)], [limit])[0] is not None


def test_tensors_without_memory_of_their_own_are_left_to_python():
    class Wrapper(torch.Tensor):
        pass

    spec = describe_tensor(torch.zeros(4))
    assert spec.native is not None
    wrapped = torch.zeros(4).as_subclass(Wrapper)
    assert describe_tensor(wrapped).native is None
    assert both([spec], [wrapped]) == (None, None)
    assert both([spec], [torch.empty(4, device="meta")])[0] is None


@pytest.mark.parametrize(
    "view",
    [
        lambda z: z.imag,
        lambda z: z.imag[1:3],
        lambda z: z.imag[:1],
        lambda z: z.imag.unsqueeze(-1)[:1],
        lambda z: z.imag.reshape(2, 2),
        lambda z: z.imag[3:].expand(4),
        lambda z: z.imag.unflatten(0, (4, 1)),
        lambda z: torch._neg_view(z.real.clone()) if z.is_conj() else z.real.clone(),
    ],
)
def test_negated_views_are_left_to_the_slow_path(view):
    z = torch.arange(4).to(torch.complex64) * 1j
    negated, plain = view(z.conj()), view(z)
    assert negated.is_neg()
    assert not plain.is_neg()
    spec = describe_tensor(plain)
    assert spec.native is not None
    assert both([spec], [negated]) == (None, None)
    native, python = both([spec], [plain])
    assert native is not None
    assert padded([spec], native) == python
    with pytest.raises(UserTypeError, match="resolve_neg"):
        describe_tensor(negated)


UNIT_STRIDE = {
    "whole": lambda x: x,
    "part": lambda x: x[1:],
    "one": lambda x: x[:1],
    "rows": lambda x: x.view(2, 8),
    "parameter": torch.nn.Parameter,
    "gradient": lambda x: x.requires_grad_(),
}


@pytest.mark.parametrize("form", UNIT_STRIDE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("found", [True, False])
def test_negated_views_of_unit_stride_are_refused(monkeypatch, form, dtype, found):
    if not found:  # a version of torch that shows it by a method only
        monkeypatch.setattr("flydsl.compiler.arguments.tensors.negation_flag", lambda _: None)
    plain = UNIT_STRIDE[form](torch.arange(16, dtype=dtype))
    negated = torch._neg_view(torch.arange(16, dtype=dtype))
    if form not in ("parameter", "gradient"):
        negated = UNIT_STRIDE[form](negated)
    assert negated.is_neg()
    spec = describe_tensor(plain)
    assert (spec.native.flag != (0, 0, 0)) is found
    assert (spec.native.value == "is_neg") is not found
    assert both([spec], [plain])[0] is not None
    assert both([spec], [negated]) == (None, None)
    resolved = UNIT_STRIDE[form](torch._neg_view(torch.arange(16, dtype=dtype)).resolve_neg())
    assert both([spec], [resolved])[0] is not None


def test_tensors_whose_storage_was_freed_are_left_to_the_slow_path():
    freed, empty = torch.zeros(4, 3), torch.zeros(0, 3)
    specs = [describe_tensor(torch.zeros(2, 3))]
    assert both(specs, [freed])[0] is not None
    freed.untyped_storage().resize_(0)
    assert freed.data_ptr() == 0
    assert both(specs, [freed]) == (None, None)
    native, python = both(specs, [empty])
    assert native is not None
    assert padded(specs, native) == python


@pytest.mark.parametrize("value", [2, 254, 255, -1, 256])
def test_truth_values_are_zero_or_one(value):
    specs = [describe_number(1, Boolean)]
    assert both(specs, [1]) == (b"\1", b"\1")
    assert both(specs, [value]) == (None, None)
