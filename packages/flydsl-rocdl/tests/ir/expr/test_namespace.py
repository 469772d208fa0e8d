"""The functions of ``fx.rocdl`` that create operations directly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from flydsl import mlir
from flydsl.errors import TargetError, UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import Session, opened
from flydsl.expr.numeric import (
    Boolean,
    Float8E4M3FN,
    Float8E4M3FNUZ,
    Float8E5M2,
    Float8E5M2FNUZ,
    Float16,
    Float32,
    Int8,
    Int32,
    Uint8,
)
from flydsl_rocdl import expr as rocdl
from flydsl_rocdl.passes.convert import run
from flydsl_rocdl.target import RocdlTarget, parse_target


class Body:
    """A kernel under construction; `lowered` runs the lowering pass and returns the text."""

    def __init__(self, module: object, target: RocdlTarget, arguments: list[object]) -> None:
        self.module = module
        self.target = target
        self.arguments = arguments

    def lowered(self) -> str:
        run(self.module, self.target)
        mlir.verify(self.module, "lowering")
        return str(self.module)


@contextmanager
def _tracing(arch: str) -> Iterator[Body]:
    spec = parse_target(arch)
    assert spec is not None
    target = RocdlTarget.from_spec(spec)
    context = mlir.new_context()
    with ExitStack() as stack:
        stack.enter_context(context)
        stack.enter_context(mlir.ir.Location.file("user.py", 3, 1))
        module = mlir.parse_module(
            "gpu.module @m { gpu.func @k(%i: i32, %x: f32, %c: i1) kernel { gpu.return } }", context
        )
        function = module.body.operations[0].regions[0].blocks[0].operations[0]
        block = function.regions[0].blocks[0]
        stack.enter_context(mlir.ir.InsertionPoint.at_block_begin(block))
        stack.enter_context(opened(Session(mlir.ir, context, target)))
        yield Body(module, target, list(block.arguments))


@pytest.fixture
def tracing() -> Callable[[str], AbstractContextManager[Body]]:
    """Open a trace for an architecture."""
    return _tracing


Tracing = Callable[[str], AbstractContextManager[Body]]


@pytest.mark.parametrize(
    ("arch", "call", "text"),
    [
        ("gfx942", lambda: rocdl.s_waitcnt(vmcnt=0), "rocdl.s.waitcnt 3952"),
        ("gfx1100", lambda: rocdl.s_waitcnt(vmcnt=0), "rocdl.s.waitcnt 1015"),
        ("gfx942", lambda: rocdl.s_waitcnt(0x1234), "rocdl.s.waitcnt 4660"),
        ("gfx1201", lambda: rocdl.s_wait_loadcnt(5), "rocdl.s.wait.loadcnt 5"),
        ("gfx1250", lambda: rocdl.s_wait_tensorcnt(1), "rocdl.s.wait.tensorcnt 1"),
        ("gfx1250", lambda: rocdl.s_wait_asynccnt(2), "rocdl.s.wait.asynccnt 2"),
        ("gfx942", lambda: rocdl.sched_barrier("valu", 4), "rocdl.sched.barrier 6"),
        ("gfx942", rocdl.sched_barrier, "rocdl.sched.barrier 0"),
        ("gfx942", lambda: rocdl.sched_mfma(3), "rocdl.sched.group.barrier 8, 3, 0"),
        ("gfx942", lambda: rocdl.sched_dsrd(2), "rocdl.sched.group.barrier 256, 2, 0"),
        ("gfx942", lambda: rocdl.sched_dswr(2), "rocdl.sched.group.barrier 512, 2, 0"),
        ("gfx942", lambda: rocdl.sched_vmem(1), "rocdl.sched.group.barrier 32, 1, 0"),
        ("gfx942", lambda: rocdl.iglp_opt(1), "rocdl.iglp.opt 1"),
        ("gfx942", lambda: rocdl.s_setprio(2), "rocdl.s.setprio 2"),
        ("gfx942", lambda: rocdl.s_nop(7), "rocdl.s.nop 7"),
        ("gfx942", lambda: rocdl.s_sleep(9), "rocdl.s.sleep 9"),
        ("gfx942", rocdl.s_barrier, "rocdl.s.barrier"),
        ("gfx942", rocdl.wave_barrier, 'llvm.call_intrinsic "llvm.amdgcn.wave.barrier"()'),
    ],
)
def test_directives(tracing: Tracing, arch: str, call: Callable[[], None], text: str) -> None:
    with tracing(arch) as body:
        call()
        lines = [line.strip().partition(" :")[0] for line in body.lowered().splitlines()]
        assert text in lines


def test_lane_operations(tracing: Tracing) -> None:
    with tracing("gfx942") as body:
        i, x, c = body.arguments
        number, real, condition = Int32.wrap(i), Float32.wrap(x), Boolean.wrap(c)
        assert rocdl.lane_id().ir_text == "i32"
        assert type(rocdl.read_first_lane(real)) is Float32
        assert type(rocdl.read_lane(number, 3)) is Int32
        assert type(rocdl.readlane(Int32, number, number)) is Int32
        assert type(rocdl.readfirstlane(Float32, real)) is Float32
        assert type(rocdl.ds_bpermute(Float32, number, real)) is Float32
        assert type(rocdl.update_dpp_word(real, real, 0xB1)) is Float32
        assert rocdl.ballot("i64", condition).width == 64
        text = body.lowered()
    for name in ("mbcnt.hi", "ds.bpermute"):
        assert f"llvm.amdgcn.{name}" in text
    for name in ("readfirstlane", "readlane", "ballot", "update.dpp"):
        assert f"rocdl.{name}" in text


def test_a_ballot_is_as_wide_as_the_wave(tracing: Tracing) -> None:
    with tracing("gfx1100") as body:
        assert rocdl.ballot(Int32, Boolean.wrap(body.arguments[2])).width == 32


def test_an_architecture_without_the_combined_wait_says_what_it_has(tracing: Tracing) -> None:
    with tracing("gfx1250"), pytest.raises(TargetError, match="no combined wait") as caught:
        rocdl.s_waitcnt(0)
    assert "s_wait_loadcnt" in caught.value.allowed
    with tracing("gfx1250") as body:
        rocdl.s_waitcnt(vmcnt=7, lgkmcnt=40)
        text = body.lowered()
    assert "rocdl.s.wait.loadcnt 7" in text
    assert "rocdl.s.wait.dscnt 40" in text
    assert '"llvm.amdgcn.s.wait.kmcnt"(' in text
    assert "constant 31 : i16" in text


def test_misuse_is_refused(tracing: Tracing) -> None:
    with tracing("gfx942") as body:
        dynamic = Int32.wrap(body.arguments[0])
        with pytest.raises(UserTypeError, match="either the raw immediate or counters"):
            rocdl.s_waitcnt(0, vmcnt=0)
        with pytest.raises(UserTypeError, match="compile-time"):
            rocdl.s_nop(dynamic)
        with pytest.raises(UserValueError, match="out of range"):
            rocdl.s_setprio(4)
        with pytest.raises(UserValueError, match="instruction class 'vlu'"):
            rocdl.sched_barrier("vlu")
        with pytest.raises(TargetError, match="no counter loadcnt"):
            rocdl.s_wait_loadcnt(0)
        with pytest.raises(UserTypeError, match="32-bit number"):
            rocdl.read_first_lane(Boolean.wrap(body.arguments[2]))
        with pytest.raises(UserTypeError, match="gives i32 here"):
            rocdl.readfirstlane(Float32, dynamic)
        with pytest.raises(TargetError, match="takes a Boolean"):
            rocdl.ballot("i64", dynamic)


def test_outside_a_trace_there_is_no_target() -> None:
    with pytest.raises(UserRuntimeError):
        rocdl.s_barrier()


def test_scopes_are_their_llvm_names() -> None:
    assert rocdl.SyncScope.AGENT == "agent"
    assert rocdl.SyncScope.WORKGROUP_ONE_AS == "workgroup-one-as"


def test_matrix_operations_are_checked_for_the_architecture(tracing: Tracing) -> None:
    with tracing("gfx942"):
        atom = rocdl.MFMA(16, 16, 16, Float16)
        assert str(atom) == "mfma<16,16,16,f16,f16,f32>"
        assert str(rocdl.MFMA(32, 32, 16, Int8)) == "mfma<32,32,16,i8,i8,i32>"
        mixed = rocdl.MFMA(16, 16, 32, (Float8E4M3FNUZ, Float8E5M2FNUZ))
        assert mixed.elements[:2] == ("f8E4M3FNUZ", "f8E5M2FNUZ")
        with pytest.raises(TargetError, match="no matrix instruction 16x16x32 f16") as caught:
            rocdl.MFMA(16, 16, 32, Float16)
        assert "16x16x16 f16 -> f32" in caught.value.allowed
    with tracing("gfx950"):
        rocdl.MFMA(16, 16, 32, Float16)
    # WMMA has this shape, which is another instruction.
    with tracing("gfx1100"), pytest.raises(TargetError, match="16x16x16 f16 -> f32") as caught:
        rocdl.MFMA(16, 16, 16, Float16)
    assert "no MFMA" in caught.value.allowed
    assert str(rocdl.MFMA(16, 16, 32, Float16)) == "mfma<16,16,32,f16,f16,f32>"


def test_wave_matrix_operations_are_laid_out_for_the_architecture(tracing: Tracing) -> None:
    with tracing("gfx1100"):
        assert str(rocdl.WMMA(16, 16, 16, Float16)) == (
            "wmma<16,16,16,f16,f16,f32,2,True,True,False,False,0,False,False>"
        )
        mixed = rocdl.WMMA(16, 16, 16, (Uint8, Int8), clamp=True)
        assert str(mixed) == "wmma<16,16,16,i8,i8,i32,2,False,True,True,False,0,False,False>"
        with pytest.raises(TargetError, match="no matrix instruction 16x16x16 fp8"):
            rocdl.WMMA(16, 16, 16, Float8E4M3FN)
        with pytest.raises(UserValueError, match="are for integers"):
            rocdl.WMMA(16, 16, 16, Float16, sign_a=True)
    with tracing("gfx1201"):
        small = rocdl.WMMA(16, 16, 16, (Float8E4M3FN, Float8E5M2))
        assert (
            str(small) == "wmma<16,16,16,f8E4M3FN,f8E5M2,f32,1,True,True,False,False,0,False,False>"
        )
        unsigned = rocdl.WMMA(16, 16, 16, Int8, sign_a=False)
        assert (unsigned.sign_a, unsigned.sign_b) == (False, True)
    with tracing("gfx942"), pytest.raises(TargetError, match="WMMA") as caught:
        rocdl.WMMA(16, 16, 16, Float16)
    assert "no WMMA" in caught.value.allowed


def test_buffer_copies_by_width() -> None:
    assert str(rocdl.BufferCopy128b()) == "buffer_copy<128,0>"
    assert str(rocdl.BufferCopy16b(cache_modifier=2)) == "buffer_copy<16,2>"


def test_every_operation_of_the_rocdl_dialect_has_a_builder() -> None:
    names = {getattr(item, "OPERATION_NAME", "") for item in vars(mlir.rocdl).values()}
    names = {name.removeprefix("rocdl.").replace(".", "_") for name in names if "rocdl." in name}
    assert len(names) > 300
    assert [name for name in sorted(names) if not callable(getattr(rocdl, name))] == []
