"""What is kept between calls says nothing about other arguments, arrays, settings and targets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from flydsl import config
from flydsl.errors import ConfigError, TargetError, UserError
from flydsl_kernels.gemm import GemmConfig, gemm, grouped_gemm, preshuffle_b
from flydsl_kernels.gemm.arrays import as_matrix, as_output
from flydsl_kernels.gemm.device import grouped
from flydsl_kernels.gemm.device.preshuffle.checked import CheckedLauncher
from flydsl_kernels.gemm.ops import preshuffled, product
from flydsl_kernels.gemm.planning import _choice
from flydsl_kernels.gemm.problem import GemmProblem
from flydsl_kernels.gemm.rules import _derived
from flydsl_rocdl.kernels.epilogue import Epilogue


def placed(shape, strides, kind, offset):
    """Return a view of numbered elements that begins so many bytes after a multiple of 16."""
    reach = 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
    memory = np.zeros(reach * kind.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 16 + offset
    flat = memory[start : start + reach * kind.itemsize].view(kind)
    flat[...] = np.arange(reach) % 97
    return np.lib.stride_tricks.as_strided(flat, shape, [kind.itemsize * step for step in strides])


def address_of(array):
    return array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_operands_are_taken_by_their_own_strides_types_and_addresses(library):
    """One shape in many places, twice in different orders: what is kept would show."""
    shape = (2, 4, 8)
    strides = [(32, 8, 1), (32, 1, 4), (0, 8, 1), (64, 16, 1), (80, 2, 9), (0, 16, 2), (40, 10, 1)]
    kinds = [np.dtype(np.float16), np.dtype(np.int8), np.dtype(np.float32)]
    cases = [*itertools.product(strides, kinds, (0, 4, 8))]
    random = np.random.default_rng()
    for case in [*cases, *random.permutation(len(cases))]:
        steps, kind, offset = case if isinstance(case, tuple) else cases[case]
        array = placed(shape, steps, kind, offset)
        given = torch.from_numpy(array) if library == "torch" else array
        for transposed in (False, True):
            found = as_matrix(given, transposed, "a")
            wanted = array.swapaxes(1, 2) if transposed else array
            assert (found.stacked, found.rows, found.k) == wanted.shape
            assert found.batch == (1 if steps[0] == 0 else 2)
            stack = np.asarray(found.array).view(kind)
            if not found.where.k_major:
                stack = stack.swapaxes(1, 2)
            np.testing.assert_array_equal(np.broadcast_to(stack, wanted.shape), wanted)
            rows, k = stack.strides[1:] if found.where.k_major else stack.strides[:0:-1]
            assert (rows, k) == (found.where.leading * kind.itemsize, kind.itemsize)
            every = address_of(found.array) | rows | 16
            every |= stack.strides[0] if found.batch > 1 else 0
            assert found.where.alignment == every & -every


def test_results_are_written_by_their_own_strides():
    for _ in range(2):
        for steps, leading in (((32, 8, 1), 8), ((64, 16, 1), 16), ((0, 8, 1), 8)):
            array = placed((2, 4, 8), steps, np.dtype(np.float16), 0)
            assert as_output(array, (2, 4, 8), "out")[1].leading == leading
        for steps in ((32, 1, 4), (32, 4, 1), (64, 16, 2)):
            with pytest.raises(UserError) as caught:
                as_output(placed((2, 4, 8), steps, np.dtype(np.float16), 0), (2, 4, 8), "out")
            assert caught.value.code == "FLY-U912"


@pytest.fixture
def launched(monkeypatch):
    """Return what products would have been launched with, instead of launching them."""
    found = []
    monkeypatch.setattr(product, "_launch", lambda given, plan, _: found.append((given, plan)))
    return found


def planned_anew(problem: GemmProblem, arch: str, configuration=None, split_k=None):
    """Return a plan without anything that was kept."""
    fresh = GemmProblem(*(getattr(problem, name) for name in GemmProblem.__dataclass_fields__))
    choice = configuration or _choice.__wrapped__(fresh, arch, split_k).best.config
    return _derived.__wrapped__(fresh, arch, choice)


def test_plans_are_of_the_call(launched):
    """The same shapes with other types, places, options and targets."""
    a, b = np.ones((64, 256), np.float16), np.ones((32, 256), np.float16)
    apart = placed((64, 256), (260, 1), np.dtype(np.float16), 8)
    by_column = np.asfortranarray(a)
    whole = np.zeros((64, 48), np.float16)
    own = GemmConfig(16, 64, 64, 1, 4)
    calls = [
        ((a, b), {}),
        ((apart, b), {}),
        ((by_column, b), {}),
        ((a.astype(np.int8), b.astype(np.int8)), {}),
        ((a, b), {"activation": "relu"}),
        ((a, b), {"out": whole[:, :32]}),
        ((a, b), {"out": whole[:, 1:33]}),
        ((a, b), {"split_k": 2}),
        ((a, b), {"split_k": np.int64(1)}),
        ((a, b), {"config": own}),
        ((a, b), {"scale_a": 2.0}),
        ((a, b), {"out_dtype": np.float32}),
        ((torch.from_numpy(a), torch.from_numpy(b)), {}),
    ]
    plans = set()
    for arch in ("gfx942", "gfx950", "gfx1100", "gfx942"):
        with config.scope(FLYDSL_DEVICE="emu", FLYDSL_TARGET=arch):
            for operands, options in calls:
                gemm(*operands, **options)
                given, plan = launched.pop()
                parts = options.get("split_k")
                assert plan == planned_anew(given.problem, arch, options.get("config"), parts)
                plans.add(plan)
                out = options.get("out", given.result)
                assert given.result is out
                assert given.problem.out_dtype == str(out.dtype).removeprefix("torch.")
                assert given.problem.activation == options.get("activation", "")
                assert bool(given.problem.scaling.a) == ("scale_a" in options)
    assert len(plans) > 20


def test_what_is_refused_is_refused_after_an_equal_call(launched):
    a, b = np.ones((64, 256), np.float16), np.ones((32, 256), np.float16)
    with config.scope(FLYDSL_DEVICE="emu", FLYDSL_TARGET="gfx942"):
        gemm(a, b, split_k=1)
        for parts in (True, 1.0, "1"):
            with pytest.raises(UserError):
                gemm(a, b, split_k=parts)
        for _ in range(2):
            with pytest.raises(ConfigError):
                gemm(a, b, activation="tanh")
            with pytest.raises(ConfigError):
                gemm(a, b, config=GemmConfig(17, 64, 64, 1, 4))
            with pytest.raises(UserError):
                gemm(a, b, layout="tt")
    with config.scope(FLYDSL_DEVICE="emu", FLYDSL_TARGET="nonsense"), pytest.raises(TargetError):
        gemm(a, b)


def test_equal_problems_are_one_object(launched):
    """Which is what makes launches of plans that were seen cheap."""
    a, b = np.ones((64, 256), np.float16), np.ones((32, 256), np.float16)
    with config.scope(FLYDSL_DEVICE="emu", FLYDSL_TARGET="gfx942"):
        gemm(a, b)
        gemm(a.copy(), b.copy())
    (first, plan), (second, again) = launched
    assert first.problem is second.problem
    assert plan is again


def test_launchers_of_weights_are_of_the_call(monkeypatch):
    found = []
    monkeypatch.setattr(
        CheckedLauncher, "__call__", lambda launcher, *given: found.append((launcher, given))
    )
    a, bias = np.ones((32, 256), np.float16), np.ones(256, np.float32)
    wide = np.ones((2, 16, 256), np.float16)
    weights = {n: preshuffle_b(np.ones((n, 256), np.float16)) for n in (256, 512)}
    packed = preshuffle_b(np.ones((256, 256), np.int8), layout="int4_packed", dtype="int4")
    cases = [
        ((a, weights[256]), {}, ("fp16", "fp16", 256, 256), Epilogue()),
        ((a, weights[512]), {}, ("fp16", "fp16", 512, 256), Epilogue()),
        ((wide, weights[256]), {}, ("fp16", "fp16", 256, 256), Epilogue()),
        ((a, packed), {}, ("fp16_int4", "fp16", 256, 256), Epilogue()),
        ((a, weights[256]), {"out_dtype": "float32"}, ("fp16", "f32", 256, 256), Epilogue()),
        (
            (a, weights[256]),
            {"bias": bias, "activation": "relu"},
            ("fp16", "fp16", 256, 256),
            Epilogue(False, True, "relu"),
        ),
        (
            (a, weights[256]),
            {"scale_a": 2.0, "out": np.zeros((32, 256), np.float32)},
            ("fp16", "f32", 256, 256),
            Epilogue(True),
        ),
    ]
    with config.scope(FLYDSL_DEVICE="emu", FLYDSL_TARGET="gfx942"):
        for operands, options, numbers, steps in cases * 2:
            result = gemm(*operands, **options)
            launcher, given = found.pop()
            plan = launcher.check.args[0]
            assert (plan.in_dtype, plan.out_dtype, plan.n, plan.k) == numbers
            assert plan.epilogue == steps
            assert given[6:8] == (32, plan.n)
            assert np.shares_memory(given[0], result)
            assert result is options.get("out", result)
            assert result.shape == (*operands[0].shape[:-1], plan.n)
        assert preshuffled._cdna_launcher.cache_info().hits >= len(cases)


def test_plans_of_groups_are_of_the_call(monkeypatch):
    plans = []
    monkeypatch.setattr(grouped, "launch_grouped", lambda *given: plans.append(given[5]))
    a, own = np.ones((300, 64), np.float16), GemmConfig(16, 64, 64, 1, 4)
    with config.scope(FLYDSL_DEVICE="emu", FLYDSL_TARGET="gfx942"):
        for count in (1, 2, 30, 300, 1, 2):
            b, ends = np.ones((count, 48, 64), np.float16), np.zeros(count, np.int32)
            grouped_gemm(a, b, ends)
            typical = GemmProblem(-(-300 // count), 48, 64, "float16", batch=count)
            best = _choice.__wrapped__(typical, "gfx942", 1).best.config
            assert plans.pop().config == best
            grouped_gemm(a, b, ends, config=own)
            assert plans.pop().config == own
            with pytest.raises(ConfigError):
                grouped_gemm(a, b, ends, config=GemmConfig(16, 64, 64, 1, 4, split_k=2))
