"""What the operands of memory instructions are for: addresses or data."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.sanitizer.registers import Effects, registers_of

__all__ = ["Roles", "is_lane_crossing", "roles_of"]

_LANE_OPERATIONS = ("ds_bpermute", "ds_permute", "ds_swizzle")
_CROSSING = (
    "v_mfma", "v_smfmac", "v_wmma", "v_swmmac", "v_readlane", "v_readfirstlane", "v_writelane",
    "v_permlane",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Roles:
    """Registers of a memory instruction.

    Attributes:
        address: That make up the address.
        data: Whose contents go to memory, in order.
        kind: ``"load"``, ``"store"``, ``"atomic"`` or ``"scalar"`` (a load to SGPRs).
        shift: Bits by which data is shifted down before it is stored.
    """

    address: tuple[int, ...]
    data: tuple[int, ...]
    kind: str
    shift: int = 0


def is_lane_crossing(i: Instruction) -> bool:
    """Whether results depend on other lanes than their own."""
    return i.encoding == "dpp" or i.name.startswith((*_CROSSING, *_LANE_OPERATIONS))


def roles_of(i: Instruction, effects: Effects) -> Roles | None:
    """Return the roles of a memory instruction's operands; None for any other one."""
    name = i.name
    if name.startswith(("s_load", "s_buffer_load")):
        return Roles(effects.uses, (), "scalar")
    if name.startswith(_LANE_OPERATIONS) or name == "ds_nop":
        return None
    if not name.startswith(("ds_", "global_", "flat_", "scratch_", "buffer_")):
        return None
    results = set(effects.defs)
    sources = [o for n, o in enumerate(i.operands) if n or not _is_result(i, results)]
    if name.startswith(("ds_read", "ds_load")) or "_load_" in name:
        used = tuple(r for o in sources for r in registers_of(o))
        return Roles(used, (), "load")
    if not sources:
        return None
    address: tuple[Operand, ...]
    data: tuple[Operand, ...]
    if name.startswith("buffer_"):
        # The data comes first; with the old value returned it is the result as well.
        data, address = (i.operands[0],), i.operands[1:]
    elif name.startswith("ds_"):
        address, data = tuple(sources[:1]), tuple(sources[1:])
    else:
        address = (*sources[:1], *sources[2:])
        data = tuple(sources[1:2])
    stores = "_store_" in name or name.startswith(("ds_write", "ds_store"))
    return Roles(
        tuple(r for o in address for r in registers_of(o)),
        tuple(r for o in data for r in registers_of(o)),
        "store" if stores else "atomic",
        16 if "_d16_hi" in name else 0,
    )


def _is_result(i: Instruction, results: set[int]) -> bool:
    """Whether the first operand is a result (and not the data of a buffer atomic)."""
    registers = registers_of(i.operands[0])
    return bool(registers) and set(registers) <= results and bool(results)
