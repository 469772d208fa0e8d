"""Transfers of whole tiles by the tensor data mover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from flydsl.dialects.atoms import CopyOp
from flydsl.errors import UserValueError

__all__ = ["TDM", "TiledTDM"]

_RANKS = (1, 2, 3, 4, 5)


def _state(rank: int, barrier: bool) -> Mapping[str, str]:
    names = {"workgroup_mask": "i32", "imm_offset": "i64"}
    names |= {f"extent_{k}": "i32" for k in range(rank)}
    names |= {f"stride_{k}": "i64" for k in range(rank - 1)}
    if barrier:
        names["barrier_address"] = "i32"
    return MappingProxyType(names)


def _check(name: str, op: TDM | TiledTDM) -> None:
    if op.rank not in _RANKS:
        raise UserValueError(f"{name} has 1 to 5 modes", code="FLY-U655", value=op.rank)
    if op.num_warps < 1 or op.num_warps & (op.num_warps - 1):
        raise UserValueError("waves share a tile in powers of two", code="FLY-U655",
                             value=op.num_warps)  # fmt: skip
    if not 0 <= op.cache_modifier < 32:
        raise UserValueError("unknown cache modifier", code="FLY-U632", value=op.cache_modifier,
                             allowed="0 to 31")  # fmt: skip


@dataclass(frozen=True, slots=True)
class TDM(CopyOp):
    """A transfer of a tile between global memory and LDS, which the waves of a block share.

    The source and the destination of a copy hold the tile, with `rank` modes from the outermost to
    the innermost. All `num_warps` waves execute the copy; each moves its part. It has arrived when
    ``tensor_wait`` says so. What is outside the extents is loaded as zero and not stored.

    State: ``workgroup_mask``, the workgroups of the cluster that get what is loaded;
    ``extent_<mode>``, elements that exist from the tile's first on (default: all of the tile);
    ``stride_<mode>`` but for the innermost (default: that of the tensor in global memory);
    ``imm_offset``, elements added to the global address; ``barrier_address``, the LDS barrier that
    counts the transfer.

    Attributes:
        rank: Modes of the tile, 1 to 5.
        num_warps: Waves that share it, a power of two; with 1 each wave that executes the copy
            moves all of it.
        pad_interval: Elements after which a load leaves a gap in LDS; 0: as the layout says.
        pad_amount: Elements of a gap.
        cache_modifier: Cache policy bits.
        atomic_barrier: Arrive at an LDS barrier.
        early_timeout: End waiting for other workgroups' requests of a multicast early.

    Raises:
        UserError: A parameter is out of range.
    """

    prefix: ClassVar[str] = "tdm"
    whole_tile: ClassVar[bool] = True
    issued_by: ClassVar[str] = "flydsl_rocdl.expr.tensor_atoms:issue_tile"
    rank: int
    num_warps: int = 1
    pad_interval: int = 0
    pad_amount: int = 0
    cache_modifier: int = 0
    atomic_barrier: bool = False
    early_timeout: bool = False

    def __post_init__(self) -> None:
        _check("TDM", self)
        if (self.pad_interval == 0) != (self.pad_amount == 0) or self.pad_interval < 0:
            raise UserValueError(
                "pads have an interval and an amount", code="FLY-U655",
                value=(self.pad_interval, self.pad_amount),
            )  # fmt: skip

    @property
    def state(self) -> Mapping[str, str]:  # type: ignore[override]
        """Names and types of what can be set."""
        return _state(self.rank, self.atomic_barrier)

    def check_bits(self, val_bits: int) -> None:
        """Raise UserError unless the mover knows elements of `val_bits` bits."""
        _check_element(val_bits)


@dataclass(frozen=True, slots=True)
class TiledTDM(CopyOp):
    """A transfer of a tile of one tensor, named by its coordinates.

    One side of a copy is a coordinate tensor that `make_tiled_tdm_atom` made for the tensor, the
    other the tile in LDS. The state of `TDM` exists here too; ``base`` is the tensor's address.

    Attributes:
        rank: Modes of the tensor.
        store: Whether it goes from LDS to memory.
        num_warps: Waves that `tdm_partition` shares a tile between. A copy itself is done by each
            wave that executes it.
        cache_modifier: Cache policy bits.
        bounded: Whether what is outside the tensor is left out.
        atomic_barrier: Arrive at an LDS barrier.

    Raises:
        UserError: A parameter is out of range.
    """

    prefix: ClassVar[str] = "tiled_tdm"
    whole_tile: ClassVar[bool] = True
    issued_by: ClassVar[str] = "flydsl_rocdl.expr.tensor_tiling:issue_tiled"
    rank: int
    store: bool = False
    num_warps: int = 1
    cache_modifier: int = 0
    bounded: bool = True
    atomic_barrier: bool = False

    def __post_init__(self) -> None:
        _check("a tiled TDM", self)

    @property
    def state(self) -> Mapping[str, str]:  # type: ignore[override]
        """Names and types of what can be set."""
        names = dict(_state(self.rank, self.atomic_barrier))
        names |= {f"stride_{k}": "i64" for k in range(self.rank)}
        return MappingProxyType({**names, "base": "i64"})

    def check_bits(self, val_bits: int) -> None:
        """Raise UserError unless the mover knows elements of `val_bits` bits."""
        _check_element(val_bits)


def _check_element(bits: int) -> None:
    if bits not in (8, 16, 32, 64):
        raise UserValueError(
            "the tensor data mover moves elements of 8, 16, 32 and 64 bits", code="FLY-U655",
            value=bits, hint="recast the tensor to bytes",
        )  # fmt: skip
