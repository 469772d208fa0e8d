"""Transfers between memory and LDS that gfx1250 adds: of lanes, for clusters, and of tensors.

What a lane transfers goes from the address in one register to the LDS address in another; the
instruction's offset counts for both (LLVM's description of the intrinsics). A load for a cluster
writes the LDS of every workgroup of the cluster whose bit is set in M0, at the same address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.vmem import flat_address

__all__ = ["TransferApi"]

_WIDTHS = {"b8": (1, 1), "b32": (4, 1), "b64": (4, 2), "b128": (4, 4)}


class TransferApi(VectorApi, Protocol):
    """What a tier needs beyond the vector API to run these instructions."""

    def broadcast(self, mask: Value, address: Value, size: int, values: Sequence[Value]) -> None:
        """Store to the LDS of the workgroups of the wave's cluster that a uniform `mask` names.

        Args:
            mask: A bit for each workgroup of the cluster; zero names the wave's own.
            address: LDS byte address of each lane.
            size: Bytes of an element.
            values: Elements, one after the other.
        """
        ...

    def tensor_transfer(self, groups: Sequence[Sequence[Value] | None], store: bool) -> None:
        """Transfer a tile as the words of the descriptor groups say, once for each wave."""
        ...


def _lds_address(v: VectorApi, i: Instruction, address: Value) -> Value:
    return v.add(address, i.mod("offset") & 0xFFFFFFFF)


def _load(size: int, count: int) -> Callable[..., object]:
    def call(
        v: VectorApi, i: Instruction, lds: Value, address: Value, base: Value | None = None
    ) -> object:
        loaded = v.load("global", flat_address(v, i, address, base, size * count), size, count)
        v.store("lds", _lds_address(v, i, lds), size, loaded)
        return ()

    return call


def _store(size: int, count: int) -> Callable[..., object]:
    def call(
        v: VectorApi, i: Instruction, address: Value, lds: Value, base: Value | None = None
    ) -> object:
        loaded = v.load("lds", _lds_address(v, i, lds), size, count)
        v.store("global", flat_address(v, i, address, base, size * count), size, loaded)
        return ()

    return call


def _load_for_cluster(size: int, count: int) -> Callable[..., object]:
    def call(
        v: TransferApi,
        i: Instruction,
        mask: Value,
        _place: Value,
        lds: Value,
        address: Value,
        base: Value | None = None,
    ) -> object:
        loaded = v.load("global", flat_address(v, i, address, base, size * count), size, count)
        v.broadcast(v.bit_and(mask, 0xFFFF), _lds_address(v, i, lds), size, loaded)
        return ()

    return call


for _name, (_size, _count) in _WIDTHS.items():
    define(f"global_load_async_to_lds_{_name}", "= inst u32 auto auto", _load(_size, _count))
    define(f"global_store_async_from_lds_{_name}", "= inst auto u32 auto", _store(_size, _count))
    define(
        f"cluster_load_async_to_lds_{_name}",
        "= inst m0 place u32 auto auto",
        _load_for_cluster(_size, _count),
    )


def _tensor(store: bool) -> Callable[..., object]:
    def call(v: TransferApi, _place: Value, *groups: Sequence[Value] | None) -> object:
        v.tensor_transfer(groups, store)
        return ()

    return call


define("tensor_load_to_lds", "= place regs regs regs regs", _tensor(False))
define("tensor_store_from_lds", "= place regs regs regs regs", _tensor(True))
