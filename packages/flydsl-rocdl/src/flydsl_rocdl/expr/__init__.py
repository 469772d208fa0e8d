"""The namespace ``fx.rocdl``: what AMD GPUs offer beyond the neutral language.

Waits and scheduling (`waits`, `scheduling`, `pipelining`), lane operations (`lanes`; `raw` has them
under ROCDL's names with a result type first), buffer tensors (`buffers`), copies (`copies`), matrix
operations (`matrix`), the tensor data mover (`tdm_ops`; `tensor_atoms` and `tensor_tiling` for
copies), clusters (`cluster`), scopes of atomics (`scopes`), builders with defaults (`wrappers`,
`inline_asm`, `experimental`), and one module per family (`cdna3` to `cdna5`, `rdna3`, `rdna4`). To
add a function, write it in the module that fits, check the architecture through
`access.amd_facts`, and export it here.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.expr import (
    cdna3,
    cdna4,
    cdna5,
    cluster,
    experimental,
    inline_asm,
    rdna3,
    rdna4,
    tdm_ops,
)
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
from flydsl_rocdl.expr.cluster import (
    cluster_barrier,
    cluster_id_x,
    cluster_id_y,
    cluster_id_z,
    cluster_workgroup_id_x,
    cluster_workgroup_id_y,
    cluster_workgroup_id_z,
    wave_id,
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
from flydsl_rocdl.expr.matrix import MFMA, SMFMAC, SWMMAC, WMMA, MFMA_Scale, WMMAScale
from flydsl_rocdl.expr.named_barriers import NamedBarrier
from flydsl_rocdl.expr.pipelining import Pipeline, pipeline
from flydsl_rocdl.expr.raw import ballot, ds_bpermute, readfirstlane, readlane
from flydsl_rocdl.expr.raw_matrix import NAMES
from flydsl_rocdl.expr.raw_matrix import builder as matrix_builder
from flydsl_rocdl.expr.scheduling import (
    iglp_opt,
    lds_barrier,
    s_barrier,
    s_barrier_leave,
    s_barrier_signal,
    s_barrier_signal_isfirst,
    s_barrier_wait,
    s_get_barrier_state,
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
from flydsl_rocdl.expr.sizes import (
    grid_dim_x,
    grid_dim_y,
    grid_dim_z,
    workgroup_dim_x,
    workgroup_dim_y,
    workgroup_dim_z,
)
from flydsl_rocdl.expr.waits import (
    asyncmark,
    s_wait_asynccnt,
    s_wait_bvhcnt,
    s_wait_dscnt,
    s_wait_expcnt,
    s_wait_kmcnt,
    s_wait_loadcnt,
    s_wait_samplecnt,
    s_wait_storecnt,
    s_wait_tensorcnt,
    s_waitcnt,
    wait_asyncmark,
)
from flydsl_rocdl.expr.wrappers import (
    barrier,
    buffer_load_to_lds,
    disable_xdl_arb_stall,
    lds_transpose_load,
    perm_b32,
    raw_ptr_buffer_atomic_fadd,
    raw_ptr_buffer_atomic_fmax,
    raw_ptr_buffer_load,
    raw_ptr_buffer_load_lds,
    raw_ptr_buffer_store,
    tensor_load_to_lds,
    tensor_store_from_lds,
)

# What is written with this namespace is launched: its first call finds the launch path read.
from flydsl_rocdl.hip import core as _launch_path  # noqa: F401

__all__ = [
    "MFMA",
    "SMFMAC",
    "SWMMAC",
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
    "MFMA_Scale",
    "NamedBarrier",
    "Pipeline",
    "SyncScope",
    "WMMAScale",
    "asyncmark",
    "ballot",
    "barrier",
    "buffer_load_to_lds",
    "cdna3",
    "cdna4",
    "cdna5",
    "cluster",
    "cluster_barrier",
    "cluster_id_x",
    "cluster_id_y",
    "cluster_id_z",
    "cluster_workgroup_id_x",
    "cluster_workgroup_id_y",
    "cluster_workgroup_id_z",
    "disable_xdl_arb_stall",
    "ds_bpermute",
    "experimental",
    "get_buffer_rsrc",
    "grid_dim_x",
    "grid_dim_y",
    "grid_dim_z",
    "iglp_opt",
    "inline_asm",
    "lane_id",
    "lds_barrier",
    "lds_transpose_load",
    "make_buffer_ptr",
    "make_buffer_tensor",
    "perm_b32",
    "pipeline",
    "raw_ptr_buffer_atomic_fadd",
    "raw_ptr_buffer_atomic_fmax",
    "raw_ptr_buffer_load",
    "raw_ptr_buffer_load_lds",
    "raw_ptr_buffer_store",
    "rdna3",
    "rdna4",
    "read_first_lane",
    "read_lane",
    "readfirstlane",
    "readlane",
    "s_barrier",
    "s_barrier_leave",
    "s_barrier_signal",
    "s_barrier_signal_isfirst",
    "s_barrier_wait",
    "s_buffer_load",
    "s_get_barrier_state",
    "s_nop",
    "s_setprio",
    "s_sleep",
    "s_wait_asynccnt",
    "s_wait_bvhcnt",
    "s_wait_dscnt",
    "s_wait_expcnt",
    "s_wait_kmcnt",
    "s_wait_loadcnt",
    "s_wait_samplecnt",
    "s_wait_storecnt",
    "s_wait_tensorcnt",
    "s_waitcnt",
    "sched_barrier",
    "sched_dsrd",
    "sched_dswr",
    "sched_group_barrier",
    "sched_mfma",
    "sched_vmem",
    "tdm_ops",
    "tensor_load_to_lds",
    "tensor_store_from_lds",
    "update_dpp_word",
    "wait_asyncmark",
    "wave_barrier",
    "wave_id",
    "workgroup_dim_x",
    "workgroup_dim_y",
    "workgroup_dim_z",
]


def __getattr__(name: str) -> Any:
    """Return a raw builder: a matrix operation (`raw_matrix`) or an intrinsic (`builders`)."""
    if name.startswith("_"):
        raise AttributeError(name)
    found = matrix_builder(name)
    if found is not None:
        return found
    from flydsl_rocdl.expr.builders import builder

    return builder(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *NAMES})
