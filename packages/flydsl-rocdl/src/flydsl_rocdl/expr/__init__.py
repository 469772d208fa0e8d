"""The namespace ``fx.rocdl``: what AMD GPUs offer beyond the neutral language.

Waits and scheduling (`waits`, `scheduling`), lane operations (`lanes`; `raw` has them under ROCDL's
names with a result type first), buffer tensors (`buffers`), copies (`copies`), matrix operations
(`matrix`), scopes of atomics (`scopes`), and one module per family (`cdna3`, `cdna4`, `rdna3`,
`rdna4`). To add a function, write it in the module that fits, check the architecture through
`access.amd_facts`, and export it here.
"""

from __future__ import annotations

from flydsl_rocdl.expr import cdna3, cdna4, rdna3, rdna4
from flydsl_rocdl.expr.buffers import (
    BufferCopy,
    BufferCopy8b,
    BufferCopy16b,
    BufferCopy32b,
    BufferCopy64b,
    BufferCopy128b,
    make_buffer_ptr,
    make_buffer_tensor,
)
from flydsl_rocdl.expr.copies import (
    BufferAtomic,
    BufferAtomicAdd,
    BufferAtomicMax,
    BufferAtomicMin,
    BufferAtomicPkAdd,
    BufferCopyLDS,
    BufferCopyLDS32b,
    BufferCopyLDS64b,
    BufferCopyLDS128b,
    get_buffer_rsrc,
    s_buffer_load,
)
from flydsl_rocdl.expr.lanes import (
    lane_id,
    read_first_lane,
    read_lane,
    update_dpp_word,
)
from flydsl_rocdl.expr.matrix import MFMA, WMMA
from flydsl_rocdl.expr.raw import ballot, ds_bpermute, readfirstlane, readlane
from flydsl_rocdl.expr.scheduling import (
    iglp_opt,
    s_barrier,
    s_nop,
    s_setprio,
    s_sleep,
    sched_barrier,
    sched_dsrd,
    sched_dswr,
    sched_group_barrier,
    sched_mfma,
    sched_vmem,
    wave_barrier,
)
from flydsl_rocdl.expr.scopes import SyncScope
from flydsl_rocdl.expr.waits import (
    s_wait_asynccnt,
    s_wait_dscnt,
    s_wait_expcnt,
    s_wait_loadcnt,
    s_wait_storecnt,
    s_wait_tensorcnt,
    s_waitcnt,
)

__all__ = [
    "MFMA",
    "WMMA",
    "BufferAtomic",
    "BufferAtomicAdd",
    "BufferAtomicMax",
    "BufferAtomicMin",
    "BufferAtomicPkAdd",
    "BufferCopy",
    "BufferCopy8b",
    "BufferCopy16b",
    "BufferCopy32b",
    "BufferCopy64b",
    "BufferCopy128b",
    "BufferCopyLDS",
    "BufferCopyLDS32b",
    "BufferCopyLDS64b",
    "BufferCopyLDS128b",
    "SyncScope",
    "ballot",
    "cdna3",
    "cdna4",
    "ds_bpermute",
    "get_buffer_rsrc",
    "iglp_opt",
    "lane_id",
    "make_buffer_ptr",
    "make_buffer_tensor",
    "rdna3",
    "rdna4",
    "read_first_lane",
    "read_lane",
    "readfirstlane",
    "readlane",
    "s_barrier",
    "s_buffer_load",
    "s_nop",
    "s_setprio",
    "s_sleep",
    "s_wait_asynccnt",
    "s_wait_dscnt",
    "s_wait_expcnt",
    "s_wait_loadcnt",
    "s_wait_storecnt",
    "s_wait_tensorcnt",
    "s_waitcnt",
    "sched_barrier",
    "sched_dsrd",
    "sched_dswr",
    "sched_group_barrier",
    "sched_mfma",
    "sched_vmem",
    "update_dpp_word",
    "wave_barrier",
]
