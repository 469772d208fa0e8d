"""Bank conflicts, cache lines and loops against plain Python counts."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction
from flydsl_emu.report import CONSTANTS, TimeModel, constants_of
from flydsl_emu.report.classes import CLASSES, classify, matrix_passes
from flydsl_emu.report.counting import AccessCounter, Barriers
from flydsl_emu.report.loops import find_loops


def reference_clocks(
    offsets: list[int], size: int, banks: int, bytes_per_clock: int
) -> tuple[int, int]:
    """Clocks of one wave's access by the rule as it is told: lane by lane, bank by bank."""
    group = bytes_per_clock // max(4, size)
    clocks = ideal = 0
    for first in range(0, len(offsets), group):
        wanted = defaultdict(set)
        for offset in offsets[first : first + group]:
            for dword in range(offset // 4, offset // 4 + max(1, size // 4)):
                wanted[dword % banks].add(dword)
        clocks += max(len(x) for x in wanted.values())
        ideal += -(-sum(len(x) for x in wanted.values()) // banks)
    return clocks, ideal


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100"])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("size", [1, 4, 8, 16])
def test_bank_conflicts(arch: str, write: bool, size: int) -> None:
    constants = constants_of(arch)
    banks = int(constants["lds_banks"].value)
    rate = int(constants["lds_write_bytes" if write else "lds_read_bytes"].value)
    chance = random.Random(size)
    patterns = [
        [size * lane for lane in range(64)],
        [128 * lane for lane in range(64)],
        [256 * lane for lane in range(64)],
        [132 * lane // size * size for lane in range(64)],
        [0] * 64,
        [16 * (lane % 7) for lane in range(64)],
    ]
    patterns += [[size * chance.randrange(4000) for _ in range(64)] for _ in range(20)]
    for waves in (1, 3):
        counter = AccessCounter(constants)
        expected = [0, 0]
        for offsets in patterns:
            counter.access(
                "lds",
                np.array(offsets * waves, np.uint32),
                size,
                np.repeat(np.arange(waves), 64),
                write,
            )
            for k, clocks in enumerate(reference_clocks(offsets, size, banks, rate)):
                expected[k] += clocks * waves
        (traffic,) = counter.traffic.values()
        assert [traffic.clocks, traffic.ideal_clocks] == expected
        assert traffic.waves == waves * len(patterns)


def test_known_conflicts() -> None:
    """A column of a 32-dword wide tile is the classic 32-way conflict; a padded one has none."""
    for stride, clocks in ((32, 64), (33, 2)):
        counter = AccessCounter(CONSTANTS["gfx942"])
        offsets = np.arange(64, dtype=np.uint32) * np.uint32(4 * stride)
        counter.access("lds", offsets, 4, np.zeros(64, np.int64), False)
        (traffic,) = counter.traffic.values()
        assert (traffic.clocks, traffic.ideal_clocks) == (clocks, 2)


def test_cache_lines() -> None:
    chance = np.random.default_rng(3)
    counter = AccessCounter(CONSTANTS["gfx942"])
    touched: dict[int, set[int]] = {64: set(), 128: set()}
    sums = {64: 0, 128: 0}
    for size in (1, 2, 4, 8, 12, 16):
        for _ in range(15):
            addresses = chance.integers(1 << 46, (1 << 46) + 4000, 128).astype(np.uint64)
            counter.access("global", addresses, size, np.repeat([4, 9], 64), False)
            for line in (64, 128):
                for wave in (addresses[:64], addresses[64:]):
                    lines = {b // line for a in wave.tolist() for b in (a, a + size - 1)}
                    sums[line] += len(lines)
                    touched[line] |= lines
    traffic = counter.totals()["global", "read"]
    assert (traffic.lines64, traffic.lines128) == (sums[64], sums[128])
    assert counter.distinct_lines(64) == len(touched[64])
    assert counter.distinct_lines(128) == len(touched[128])
    assert traffic.requested == 15 * 128 * (1 + 2 + 4 + 8 + 12 + 16)


def test_barrier_imbalance() -> None:
    barriers = Barriers()
    barriers.start(4)
    workgroup = np.array([0, 0, 1, 1])
    everyone = np.ones(4, bool)
    alone = np.array([True, False, False, False])
    for _ in range(10):
        barriers.step(everyone)
    for _ in range(30):
        barriers.step(alone)
    barriers.arrive(everyone, workgroup)
    # Workgroup 0: 40 and 10 instructions; workgroup 1: 10 and 10.
    assert barriers.imbalance == 30 / (80 + 20)
    for _ in range(5):
        barriers.step(everyone)
    barriers.arrive(everyone, workgroup)
    assert barriers.imbalance == 30 / (80 + 20 + 20)
    assert barriers.arrivals == 8
    assert Barriers().imbalance == 0


def _branch(pc: int, target: int) -> Instruction:
    return Instruction(pc, 4, "SOPP", "s_cbranch_scc1", "", (), {}, target)


def test_loops() -> None:
    code = [_branch(40, 16), _branch(60, 8), _branch(64, 80), _branch(70, 16), _branch(100, 100)]
    found = [(x.start, x.end, x.depth) for x in find_loops(code)]
    assert found == [(8, 64, 0), (16, 74, 0), (100, 104, 0)]
    nested = [_branch(40, 16), _branch(60, 8)]
    assert [(x.start, x.depth) for x in find_loops(nested)] == [(8, 0), (16, 1)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v_mfma_f32_16x16x16_f16", "mfma"),
        ("v_wmma_f32_16x16x16_bf16", "mfma"),
        ("v_exp_f32", "transcendental"),
        ("v_fma_f32", "valu"),
        ("v_cos_f16", "transcendental"),
        ("ds_read_b128", "lds"),
        ("ds_load_b128", "lds"),
        ("global_load_dwordx4", "vmem"),
        ("buffer_store_b32", "vmem"),
        ("s_load_dwordx2", "smem"),
        ("s_waitcnt", "wait"),
        ("s_wait_loadcnt", "wait"),
        ("s_barrier_signal", "wait"),
        ("s_cbranch_vccz", "branch"),
        ("s_add_u32", "salu"),
    ],
)
def test_classes(name: str, expected: str) -> None:
    assert classify(Instruction(0, 4, "?", name, "", ())) == expected
    assert expected in CLASSES


@pytest.mark.parametrize(
    ("name", "flops", "passes"),
    [
        ("v_mfma_f32_16x16x16_f16", 0, 4),
        ("v_mfma_f32_32x32x8_f16", 0, 8),
        ("v_mfma_f32_16x16x32_bf16", 0, 4),
        ("v_mfma_f32_32x32x16_bf16", 0, 8),
        ("v_mfma_i32_16x16x32_i8", 0, 4),
        ("v_mfma_f32_16x16x4_f32", 0, 8),
        ("v_wmma_f32_16x16x16_f16", 256, 8),
        ("v_wmma_i32_16x16x16_iu8", 256, 8),
        ("v_wmma_f32_16x16x16_f16", 512, 4),
        ("v_wmma_f32_16x16x16_fp8_fp8", 512, 2),
    ],
)
def test_matrix_passes(name: str, flops: int, passes: int) -> None:
    assert matrix_passes(Instruction(0, 8, "VOP3P", name, "", ()), flops) == passes


def test_every_constant_tells_its_source() -> None:
    for arch, table in CONSTANTS.items():
        for name, constant in table.items():
            assert constant.source.startswith(("public", "assumed")), (arch, name)
            assert constant.public == constant.source.startswith("public")
            assert constant.unit
    with pytest.raises(TargetError):
        constants_of("gfx90a")


def test_the_model_is_the_largest_of_its_limits() -> None:
    totals = dict.fromkeys(
        ("salu", "smem", "branch", "wait", "vmem", "lds", "valu", "transcendental"), 0.0
    )
    totals |= {"passes": 0, "lds_clocks": 0, "bytes": 0, "vector_waits": 0, "local_waits": 0}
    groups, waves = 304 * 4, 4
    model = TimeModel.from_totals("gfx942", {**totals, "bytes": 5.3e9}, groups, waves, 8)
    assert model.limit == "memory"
    assert model.microseconds == pytest.approx(1000)
    passes = 100.0 * groups * waves
    model = TimeModel.from_totals("gfx942", {**totals, "passes": passes}, groups, waves, 8)
    # Each of the four SIMDs of a CU runs four waves with 100 passes of four clocks each.
    assert model.clocks["mfma"] == 4 * 100 * 4
    assert model.constants is CONSTANTS["gfx942"]
