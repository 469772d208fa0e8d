"""Architecture facts are consistent and say where they come from."""

from __future__ import annotations

import importlib

import pytest

from flydsl.errors import TargetError
from flydsl_rocdl import arch
from flydsl_rocdl.arch import KNOWN, lookup, occupancy


@pytest.mark.parametrize("name", list(KNOWN))
def test_an_architecture_is_known_under_its_own_name(name: str) -> None:
    facts = lookup(name)
    assert facts.name == name
    assert facts.lds.capacity % facts.lds.granule == 0
    assert facts.max_threads_per_block % facts.wave_size == 0
    assert all(shape.m * shape.n * shape.blocks % facts.wave_size == 0 for shape in facts.matrix)


@pytest.mark.parametrize("module", ["gfx942", "gfx950", "gfx11", "gfx12", "gfx1250"])
def test_every_facts_file_names_its_sources(module: str) -> None:
    doc = importlib.import_module(f"flydsl_rocdl.arch.{module}").__doc__
    assert doc is not None
    assert "Sources:" in doc


def test_an_unknown_architecture_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match="gfx906") as caught:
        lookup("gfx906")
    assert "gfx942" in caught.value.allowed
    assert caught.value.code == "FLY-T600"


@pytest.mark.parametrize(
    ("version", "name"),
    [(90402, "gfx942"), (90500, "gfx950"), (90010, "gfx90a"), (110501, "gfx1151"),
     (120001, "gfx1201"), (120500, "gfx1250")],
)  # fmt: skip
def test_the_kernel_driver_version_names_the_architecture(version: int, name: str) -> None:
    assert arch.from_kfd_version(version) == name


def test_the_tightest_limit_is_named() -> None:
    facts = lookup("gfx942")
    free = occupancy(facts, vgpr=64, sgpr=32, lds_bytes=0, threads=256)
    assert (free.waves_per_simd, free.limiter) == (8, "hardware")
    registers = occupancy(facts, vgpr=129, sgpr=32, lds_bytes=0, threads=256)
    assert (registers.waves_per_simd, registers.limiter) == (3, "vgpr")
    memory = occupancy(facts, vgpr=64, sgpr=32, lds_bytes=32768, threads=256)
    assert (memory.waves_per_simd, memory.limiter) == (2, "lds")
    scalar = occupancy(facts, vgpr=32, sgpr=104, lds_bytes=0, threads=64)
    assert (scalar.waves_per_simd, scalar.limiter) == (7, "sgpr")


def test_a_workgroup_with_too_much_lds_does_not_run() -> None:
    facts = lookup("gfx950")
    assert occupancy(facts, vgpr=8, sgpr=8, lds_bytes=163840, threads=1024).waves_per_simd == 4
    assert occupancy(facts, vgpr=8, sgpr=8, lds_bytes=163841, threads=64).waves_per_simd == 0
