"""Names of LLVM synchronisation scopes on AMD GPUs."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["SyncScope"]


class SyncScope(StrEnum):
    """Who has to see an atomic operation or a fence.

    The ``-one-as`` variants order only accesses of the same address space.
    """

    SYSTEM = ""
    AGENT = "agent"
    WORKGROUP = "workgroup"
    WAVEFRONT = "wavefront"
    SINGLETHREAD = "singlethread"
    ONE_AS = "one-as"
    AGENT_ONE_AS = "agent-one-as"
    WORKGROUP_ONE_AS = "workgroup-one-as"
    WAVEFRONT_ONE_AS = "wavefront-one-as"
    SINGLETHREAD_ONE_AS = "singlethread-one-as"
