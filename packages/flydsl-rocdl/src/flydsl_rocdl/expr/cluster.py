"""Clusters: workgroups that run at the same time and share loads and a barrier (CDNA5).

A launch with ``cluster=(x, y, z)`` makes clusters of that many neighbouring workgroups. Masks of a
cluster have one bit for each workgroup, in the order x, then y, then z of its place.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError, UserTypeError, UserValueError
from flydsl.expr.ambient import require
from flydsl.expr.emit import constant, emit
from flydsl.expr.gpu import barrier
from flydsl.expr.numeric import Boolean, Int32, as_numeric
from flydsl.expr.pointers import Pointer
from flydsl_rocdl.arch.tensor import LARGEST_CLUSTER
from flydsl_rocdl.expr.access import amd_facts, effect, immediate, intrinsic, ir_i32, when
from flydsl_rocdl.expr.lanes import read_first_lane
from flydsl_rocdl.expr.scheduling import s_barrier_signal, s_barrier_wait

__all__ = [
    "CLUSTER_BARRIER_ID",
    "cluster_barrier",
    "cluster_id_x",
    "cluster_id_y",
    "cluster_id_z",
    "cluster_load_async_to_lds",
    "cluster_signal_once_per_wg",
    "cluster_wait",
    "cluster_workgroup_flat_id",
    "cluster_workgroup_id_x",
    "cluster_workgroup_id_y",
    "cluster_workgroup_id_z",
    "cluster_workgroup_max_flat_id",
    "compute_cluster_position",
    "is_wave_leader",
    "wave_id",
]

CLUSTER_BARRIER_ID = -3
"""Number of the cluster's barrier for `s_barrier_signal` and `s_barrier_wait`."""
_WIDTHS = {1: "b8", 4: "b32", 8: "b64", 16: "b128"}
_OFFSETS = (-(2**23), 2**23 - 1)


def _clusters(what: str) -> None:
    facts = amd_facts(what)
    if "cluster" not in facts.has:
        raise TargetError(
            f"{facts.name} has no clusters of workgroups", code="FLY-T647", value=what,
            hint="clusters exist on CDNA5",
        )  # fmt: skip


def _number(name: str) -> Int32:
    _clusters(name)
    return Int32.wrap(intrinsic(f"amdgcn.{name.replace('_', '.')}", Int32.ir_type, ()))


def cluster_id_x() -> Int32:
    """Return the number of this workgroup's cluster along x."""
    return _number("cluster_id_x")


def cluster_id_y() -> Int32:
    """Return the number of this workgroup's cluster along y."""
    return _number("cluster_id_y")


def cluster_id_z() -> Int32:
    """Return the number of this workgroup's cluster along z."""
    return _number("cluster_id_z")


def cluster_workgroup_id_x() -> Int32:
    """Return this workgroup's place in its cluster along x."""
    return _number("cluster_workgroup_id_x")


def cluster_workgroup_id_y() -> Int32:
    """Return this workgroup's place in its cluster along y."""
    return _number("cluster_workgroup_id_y")


def cluster_workgroup_id_z() -> Int32:
    """Return this workgroup's place in its cluster along z."""
    return _number("cluster_workgroup_id_z")


def cluster_workgroup_flat_id() -> Int32:
    """Return this workgroup's place in its cluster, counted x first: its bit in masks."""
    return _number("cluster_workgroup_flat_id")


def cluster_workgroup_max_flat_id() -> Int32:
    """Return the highest place in the cluster: its workgroups less one."""
    return _number("cluster_workgroup_max_flat_id")


def wave_id() -> Int32:
    """Return the number of this wave in its workgroup, the same for all lanes.

    Raises:
        TargetError: The architecture does not tell waves their number in a scalar register.
    """
    facts = amd_facts("wave_id")
    if "wave-id" not in facts.has:
        raise TargetError(
            f"{facts.name} has no scalar wave number", code="FLY-T642", value="wave_id",
            hint="fx.rocdl.read_first_lane(fx.thread_idx.x // fx.num_threads_in_wave)",
        )  # fmt: skip
    return Int32.wrap(intrinsic("amdgcn.wave.id", Int32.ir_type, ()))


def is_wave_leader() -> Boolean:
    """Return whether this is the first wave of its workgroup."""
    _clusters("is_wave_leader")
    return Boolean(wave_id() == 0)


def compute_cluster_position() -> tuple[Int32, Int32]:
    """Return this workgroup's place in its cluster along x and y."""
    return cluster_workgroup_id_x(), cluster_workgroup_id_y()


def cluster_signal_once_per_wg() -> None:
    """Arrive at the cluster's barrier for the whole workgroup: its first wave signals.

    The workgroup's own waves must have arrived before; `cluster_barrier` sees to that.
    """
    _clusters("cluster_signal_once_per_wg")
    with when(is_wave_leader().ir_value()):
        s_barrier_signal(CLUSTER_BARRIER_ID)


def cluster_wait() -> None:
    """Wait until every workgroup of the cluster has arrived at its barrier."""
    _clusters("cluster_wait")
    s_barrier_wait(CLUSTER_BARRIER_ID)


def cluster_barrier() -> None:
    """Wait for all waves of all workgroups of the cluster.

    What the workgroup wrote to memory before is visible to it, as after `fx.barrier`; what other
    workgroups wrote to memory needs a fence of the device's scope as well.
    """
    _clusters("cluster_barrier")
    barrier()
    cluster_signal_once_per_wg()
    cluster_wait()


def cluster_load_async_to_lds(
    source: Any, target: Any, size_bytes: int, offset: int = 0, cpol: int = 0, mask: Any = None
) -> None:
    """Load bytes of each lane from memory into the LDS of several workgroups of the cluster.

    Wait with `s_wait_asynccnt`, and for the other workgroups with `cluster_barrier`.

    Args:
        source: Pointer to global memory.
        target: Pointer to shared memory; the same place in each workgroup.
        size_bytes: 1, 4, 8 or 16.
        offset: Bytes added to both addresses.
        cpol: Cache policy bits.
        mask: Bits of the workgroups, the same for all lanes; default all of the cluster.

    Raises:
        UserValueError: Another size.
        UserTypeError: The pointers are not to global and shared memory.
        TargetError: The architecture has no clusters.
    """
    _clusters("cluster_load_async_to_lds")
    if size_bytes not in _WIDTHS:
        raise UserValueError(
            "a cluster load moves 1, 4, 8 or 16 bytes", code="FLY-U654", value=size_bytes,
            allowed="1, 4, 8, 16",
        )  # fmt: skip
    pointers = []
    for value, space in ((source, "global"), (target, "shared")):
        if not isinstance(value, Pointer) or value.kind.space != space:
            raise UserTypeError(
                f"a cluster load goes from global to shared memory; this is no {space} pointer",
                code="FLY-U633", value=value,
            )  # fmt: skip
        pointers.append(value)
    session = require("cluster_load_async_to_lds")
    kinds = [session.ir.Type.parse(f"!llvm.ptr<{space}>") for space in (1, 3)]
    addresses = [
        emit("fly.to_llvm_ptr", kind, (p.value,)) for p, kind in zip(pointers, kinds, strict=True)
    ]
    if mask is None:
        mask = Int32((1 << LARGEST_CLUSTER) - 1) >> (
            Int32(LARGEST_CLUSTER - 1) - cluster_workgroup_max_flat_id()
        )
    number = as_numeric(mask)
    if number is None:
        raise UserTypeError("a mask is a 32-bit integer", code="FLY-U614", value=mask)
    uniform = number if number.is_static() else read_first_lane(number)
    operands = (
        *addresses,
        constant(session, "i32", immediate("the offset", offset, *_OFFSETS)),
        constant(session, "i32", immediate("the cache policy", cpol, 0, 31)),
        ir_i32("the mask", uniform),
    )
    effect(f"amdgcn.cluster.load.async.to.lds.{_WIDTHS[size_bytes]}", operands)
