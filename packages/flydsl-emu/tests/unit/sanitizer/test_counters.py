"""Counters, streams and distances, on instructions written by hand."""

from __future__ import annotations

import pytest

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.sanitizer.counters import counter_model
from flydsl_emu.sanitizer.flow import blocks_of
from flydsl_emu.sanitizer.registers import effects
from flydsl_emu.sanitizer.waits import WaitHazard, missing_waits


def v(index: int, count: int = 1) -> Operand:
    return Operand("v", index, count)


def s(index: int, count: int = 1) -> Operand:
    return Operand("s", index, count)


OFF = Operand("off")


class Code:
    """Builds a kernel."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.instructions: list[Instruction] = []

    def add(self, name: str, *operands: Operand, target: int | None = None, **mods: int) -> int:
        """Append an instruction; targets are indices."""
        pc = 4 * len(self.instructions)
        where = None if target is None else 4 * target
        self.instructions.append(Instruction(pc, 4, "", name, "", operands, mods, where))
        return len(self.instructions) - 1

    def wait(self, **counts: int) -> int:
        """Append ``s_waitcnt`` of gfx9."""
        vm, lgkm, exp = counts.get("vm", 63), counts.get("lgkm", 15), counts.get("exp", 7)
        value = vm & 15 | (vm >> 4) << 14 | exp << 4 | lgkm << 8
        return self.add("s_waitcnt", simm16=value)

    def load(self, register: int) -> int:
        """Append a global load."""
        return self.add("global_load_dword", v(register), v(100, 2), OFF)

    def hazards(self) -> list[WaitHazard]:
        self.add("s_endpgm")
        registers = [effects(i) for i in self.instructions]
        blocks = blocks_of(self.instructions)
        return missing_waits(self.instructions, registers, blocks, counter_model(self.arch))


@pytest.mark.parametrize("left", range(4))
def test_loads_end_in_order(left: int) -> None:
    code = Code("gfx942")
    for n in range(4):
        code.load(n)
    code.wait(vm=left)
    uses = [code.add("v_mov_b32", v(10 + n), v(n)) for n in range(4)]
    early = [h.at for h in code.hazards()]
    assert early == uses[4 - left :]


def test_the_hazard_names_the_wait_that_is_missing() -> None:
    code = Code("gfx950")
    first = code.load(0)
    code.load(1)
    code.load(2)
    use = code.add("v_mov_b32", v(9), v(0))
    (hazard,) = code.hazards()
    assert hazard == WaitHazard(use, "read", 0, 0, 2, first)


def test_scalar_loads_end_in_any_order() -> None:
    code = Code("gfx942")
    code.add("s_load_dword", s(0), s(8, 2), Operand("k", 21))
    code.add("s_load_dword", s(1), s(8, 2), Operand("k", 21))
    code.wait(lgkm=1)
    use = code.add("s_mov_b32", s(4), s(0))
    code.wait(lgkm=0)
    code.add("s_mov_b32", s(5), s(1))
    assert [h.at for h in code.hazards()] == [use]


def test_lds_reads_among_scalar_loads() -> None:
    """At most one operation outstanding: the older of two LDS reads has ended in any case."""
    code = Code("gfx942")
    code.add("ds_read_b32", v(0), v(50))
    code.add("s_load_dword", s(0), s(8, 2), Operand("k", 21))
    code.add("ds_read_b32", v(1), v(50))
    code.wait(lgkm=1)
    code.add("v_mov_b32", v(9), v(0))
    younger = code.add("v_mov_b32", v(9), v(1))
    assert [h.at for h in code.hazards()] == [younger]


def test_flat_loads_need_both_counters() -> None:
    for done, wanted in (({"vm": 0}, 1), ({"lgkm": 0}, 1), ({"vm": 0, "lgkm": 0}, 0)):
        code = Code("gfx942")
        code.add("flat_load_dword", v(0), v(50, 2))
        code.wait(**done)
        code.add("v_mov_b32", v(9), v(0))
        assert len(code.hazards()) == wanted


def test_results_written_over() -> None:
    code = Code("gfx942")
    code.load(0)
    over = code.add("v_mov_b32", v(0), v(60))
    code.load(1)
    code.load(1)  # in order, so the second one wins
    code.add("ds_read_b32", v(1), v(50))
    assert [(h.at, h.kind) for h in code.hazards()] == [(over, "write"), (4, "write")]


def test_the_shorter_path_counts() -> None:
    """Two ways to one use, with different numbers of loads in between."""
    code = Code("gfx942")
    code.load(0)
    branch = code.add("s_cbranch_scc0", target=4)
    code.load(1)
    code.load(2)
    assert code.wait(vm=1) == 4
    use = code.add("v_mov_b32", v(9), v(0))
    (hazard,) = code.hazards()
    assert branch == 1
    assert (hazard.at, hazard.distance) == (use, 0)


def test_loops_carry_what_is_outstanding() -> None:
    code = Code("gfx942")
    code.load(0)
    use = code.add("v_mov_b32", v(9), v(1))
    code.load(1)
    code.add("s_cbranch_scc1", target=1)
    assert [h.at for h in code.hazards()] == [use]


def test_barrier_and_cache_operations() -> None:
    code = Code("gfx942")
    code.add("ds_write_b32", v(0), v(1))
    barrier = code.add("s_barrier")
    code.wait(lgkm=0)
    code.add("s_barrier")
    code.load(2)
    code.add("buffer_inv", sc1=1)  # nobody else writes what that load reads
    code.add("global_load_dword", v(3), v(100, 2), OFF, sc1=1)
    invalidate = code.add("buffer_inv", sc1=1)
    assert [(h.at, h.kind) for h in code.hazards()] == [
        (barrier, "barrier"),
        (invalidate, "order"),
    ]


def test_full_counters_stall() -> None:
    """A counter holds 63 operations, so the one before the 63 youngest has ended."""
    code = Code("gfx942")
    code.load(0)
    for _ in range(63):
        code.load(1)
    code.add("s_branch", target=65)
    code.add("v_mov_b32", v(9), v(0))
    assert code.hazards() == []


@pytest.mark.parametrize(
    ("arch", "waits", "result"),
    [
        ("gfx1100", [("s_waitcnt", 0x3F7)], []),  # vmcnt(0)
        ("gfx1100", [("s_waitcnt", 0xFC07)], [3]),  # lgkmcnt(0)
        ("gfx1201", [("s_wait_loadcnt", 0)], []),
        ("gfx1201", [("s_wait_dscnt", 0)], [3]),
        ("gfx1201", [("s_wait_loadcnt_dscnt", 0x0100)], [3]),
        ("gfx1201", [("s_wait_loadcnt_dscnt", 0x003F)], []),
        ("gfx1201", [("s_wait_idle", 0)], []),
    ],
)
def test_split_counters(arch: str, waits: list[tuple[str, int]], result: list[int]) -> None:
    code = Code(arch)
    code.load(0)
    code.add("global_store_dword", v(100, 2), v(5), OFF)  # counts elsewhere
    for name, value in waits:
        code.add(name, simm16=value)
    code.add("v_mov_b32", v(9), v(0))
    assert [h.at for h in code.hazards()] == result


def test_stores_have_their_counter() -> None:
    model = counter_model("gfx1100")
    store = Instruction(0, 8, "", "global_store_b32", "", (v(0, 2), v(2), OFF), {})
    event = model.event(store)
    assert event is not None
    assert [model.streams[n].counter for n in event.streams] == ["vscnt"]
    wait = Instruction(0, 4, "", "s_waitcnt_vscnt", "", (), {"simm16": 3})
    assert model.waits(wait) == {"vscnt": 3}
    model = counter_model("gfx1201")
    event = model.event(store)
    assert event is not None
    assert [model.streams[n].counter for n in event.streams] == ["storecnt"]
    for name, counter in (
        ("image_sample", "samplecnt"),
        ("image_bvh_intersect_ray", "bvhcnt"),
        ("s_load_b32", "kmcnt"),
        ("ds_load_b32", "dscnt"),
        ("global_load_async_to_lds_b32", "asynccnt"),
        ("tensor_load_to_lds", "tensorcnt"),
    ):
        event = model.event(Instruction(0, 8, "", name, "", (), {}))
        assert event is not None
        assert [model.streams[n].counter for n in event.streams] == [counter]


@pytest.mark.parametrize(("load", "early"), [("d16_b16", 1), ("d16_hi_b16", 2)])
def test_halves_of_registers_are_apart(load: str, early: int) -> None:
    """A load into one half says nothing of the other one."""
    for half in (1, 2):
        code = Code("gfx1100")
        code.add(f"global_load_{load}", v(0), v(100, 2), OFF)
        code.add("v_add_f16", v(9), Operand("v", 0, 1, half=half), Operand("v", 1, 1, half=1))
        assert len(code.hazards()) == (half == early)
    code = Code("gfx1100")
    code.add(f"global_load_{load}", v(0), v(100, 2), OFF)
    code.add("v_mov_b32", v(9), v(0))
    assert len(code.hazards()) == 1


def test_unknown_family() -> None:
    with pytest.raises(TargetError) as caught:
        counter_model("gfx700")
    assert caught.value.code == "FLY-T738"
