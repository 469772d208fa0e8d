"""Branches, program-counter moves, waits and other instructions without a data result."""

from __future__ import annotations

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import U32, U64

__all__ = ["END", "NO_OPERATION"]

END = frozenset(("s_endpgm", "s_endpgm_saved"))
"""Instructions that end a wave."""

NO_OPERATION = (
    "s_nop s_waitcnt s_sleep s_setprio s_icache_inv s_dcache_inv s_dcache_wb s_dcache_inv_vol "
    "s_dcache_wb_vol buffer_wbl2 buffer_inv s_sendmsg s_incperflevel s_decperflevel s_ttracedata "
    "s_set_gpr_idx_off s_code_end s_sethalt s_wakeup "
    "s_clause s_delay_alu s_set_inst_prefetch_distance s_version s_wait_event s_waitcnt_depctr "
    "s_waitcnt_expcnt s_waitcnt_lgkmcnt s_waitcnt_vmcnt s_waitcnt_vscnt s_sleep_var "
    "s_wait_alu s_wait_bvhcnt s_wait_dscnt s_wait_expcnt s_wait_kmcnt s_wait_loadcnt "
    "s_wait_loadcnt_dscnt s_wait_samplecnt s_wait_storecnt s_wait_storecnt_dscnt s_wait_idle "
    "s_prefetch_data s_prefetch_data_pc_rel s_prefetch_inst s_prefetch_inst_pc_rel "
    "s_buffer_prefetch_data buffer_gl0_inv buffer_gl1_inv global_inv global_wb global_wbinv "
    "s_wait_xcnt s_wait_tensorcnt s_wait_asynccnt s_monitor_sleep s_setprio_inc_wg "
    "global_prefetch_b8 flat_prefetch_b8 s_set_vgpr_msb"
).split()
"""Instructions whose effect an in-order machine without caches cannot show."""


def _nothing(_v: VectorApi) -> tuple[()]:
    return ()


for _name in NO_OPERATION:
    if _name != "s_set_gpr_idx_off":
        define(_name, "=", _nothing)


@opcode("s_cbranch_scc1", "branch = scc")
def _if_set(_v: VectorApi, scc: Value) -> Value:
    return scc


@opcode("s_cbranch_scc0", "branch = scc")
def _if_clear(v: VectorApi, scc: Value) -> Value:
    return v.bit_not(scc)


@opcode("s_cbranch_vccnz", "branch = vcc")
@opcode("s_cbranch_execnz", "branch = exec")
def _if_any(v: VectorApi, mask: Value) -> Value:
    return v.any(mask)


@opcode("s_cbranch_vccz", "branch = vcc")
@opcode("s_cbranch_execz", "branch = exec")
def _if_none(v: VectorApi, mask: Value) -> Value:
    return v.bit_not(v.any(mask))


@opcode("s_barrier_signal", "barrier = u32")
@opcode("s_barrier_signal_isfirst", "barrier = u32")
@opcode("s_barrier_init", "barrier = u32")
@opcode("s_barrier_join", "barrier = u32")
def _barrier_operand(_v: VectorApi, number: Value) -> Value:
    return number


@opcode("s_barrier_leave", "barrier = imm")
@opcode("s_barrier_wait", "barrier = imm")
def _barrier_immediate(v: VectorApi, number: int) -> Value:
    return v.const(U32, number)


@opcode("s_getpc_b64", "u64 = pc")
def _next_address(_v: VectorApi, pc: Value) -> Value:
    return pc


@opcode("s_setpc_b64", "jump = u64")
def _go(_v: VectorApi, address: Value) -> Value:
    return address


@opcode("s_swappc_b64", "u64 jump = pc u64")
def _go_and_link(_v: VectorApi, pc: Value, address: Value) -> tuple[Value, Value]:
    return pc, address


@opcode("s_call_b64", "u64 jump = pc imm")
def _call(v: VectorApi, pc: Value, offset: int) -> tuple[Value, Value]:
    signed = (offset ^ 0x8000) - 0x8000
    return pc, v.add(pc, v.const(U64, 4 * signed))
