"""Vector memory: global, flat, scratch and buffer loads and stores, and loads straight into LDS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import sign_extend
from flydsl_emu.semantics.buffers import BufferAccess
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.value_types import I32, I64, U32, U64

__all__ = ["flat_address", "scratch_address"]

ALL_ONES_64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Access:
    """What one load or store mnemonic moves.

    Attributes:
        size: Bytes per element.
        count: Elements.
        signed: A loaded element is sign-extended.
        half: ``""``, or the half of the register that a d16 form uses: ``"lo"`` or ``"hi"``.
    """

    size: int
    count: int = 1
    signed: bool = False
    half: str = ""


LOADS = {
    "ubyte": Access(1),
    "sbyte": Access(1, signed=True),
    "ushort": Access(2),
    "sshort": Access(2, signed=True),
    "dword": Access(4),
    "dwordx2": Access(4, 2),
    "dwordx3": Access(4, 3),
    "dwordx4": Access(4, 4),
    "ubyte_d16": Access(1, half="lo"),
    "ubyte_d16_hi": Access(1, half="hi"),
    "sbyte_d16": Access(1, signed=True, half="lo"),
    "sbyte_d16_hi": Access(1, signed=True, half="hi"),
    "short_d16": Access(2, half="lo"),
    "short_d16_hi": Access(2, half="hi"),
}
STORES = {
    "byte": Access(1),
    "byte_d16_hi": Access(1, half="hi"),
    "short": Access(2),
    "short_d16_hi": Access(2, half="hi"),
    "dword": Access(4),
    "dwordx2": Access(4, 2),
    "dwordx3": Access(4, 3),
    "dwordx4": Access(4, 4),
}


def finish_load(
    v: VectorApi, access: Access, loaded: Sequence[Value], old: Sequence[Value]
) -> list[Value]:
    """Return register contents for loaded elements: extension and half registers applied."""
    if access.size == 4:
        return list(loaded)
    value = loaded[0]
    if access.signed:
        value = v.cast(sign_extend(v, value, 8 * access.size), U32)
    if access.half == "lo":
        value = v.bit_or(v.bit_and(old[0], 0xFFFF0000), v.bit_and(value, 0xFFFF))
    elif access.half == "hi":
        value = v.bit_or(v.bit_and(old[0], 0xFFFF), v.shl(value, 16))
    return [value]


def stored(v: VectorApi, access: Access, data: Sequence[Value]) -> list[Value]:
    """Return the elements to store from data registers."""
    if access.half == "hi":
        return [v.shr(data[0], 16)]
    return list(data[: access.count])


def _wrapped(offset: int) -> int:
    return offset & ALL_ONES_64


# Addresses ---------------------------------------------------------------------------------------
def flat_address(
    v: VectorApi, i: Instruction, address: Value, base: Value | None, size: int
) -> Value:
    """Return the ``U64`` address of a global or flat access to `size` bytes.

    On gfx1250 the offset beside a scalar base is signed, and may count accesses (scale_offset).
    """
    full = address
    if base is not None:
        offset = v.convert(address, U64)
        if i.isa == "gfx1250":
            offset = v.cast(v.convert(v.cast(address, I32), I64), U64)
        full = v.add(base, v.mul(offset, size) if i.mod("scale_offset") else offset)
    offset = i.mod("offset")
    return v.add(full, _wrapped(offset)) if offset else full


def scratch_address(
    v: VectorApi, i: Instruction, address: Value | None, base: Value | None, size: int
) -> Value:
    """Return the ``U32`` byte offset into the lane's private segment."""
    total = v.const(U32, i.mod("offset") & 0xFFFFFFFF)
    if address is not None and i.mod("scale_offset"):
        address = v.mul(address, size)
    for part in (address, base):
        if part is not None:
            total = v.add(part, total)
    return total


# Loads and stores --------------------------------------------------------------------------------
def _load(space: str, access: Access, address_of: Callable[..., Value]) -> Callable[..., object]:
    def call(
        v: VectorApi, i: Instruction, old: list[Value], address: Value, base: Value | None = None
    ) -> object:
        where = address_of(v, i, address, base, access.size * access.count)
        loaded = v.load(space, where, access.size, access.count)
        return finish_load(v, access, loaded, old)

    return call


def _store(space: str, access: Access, address_of: Callable[..., Value]) -> Callable[..., object]:
    def call(
        v: VectorApi, i: Instruction, address: Value, data: list[Value], base: Value | None = None
    ) -> object:
        where = address_of(v, i, address, base, access.size * access.count)
        v.store(space, where, access.size, stored(v, access, data))
        return ()

    return call


def _buffer_load(access: Access) -> Callable[..., object]:
    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        old: list[Value],
        registers: list[Value] | None,
        descriptor: list[Value],
        scalar_offset: Value,
    ) -> object:
        where = BufferAccess(v, i, registers, descriptor, scalar_offset, arch)
        loaded: list[Value] = []
        for k in range(access.count):
            at = k * access.size
            valid = where.inside(at + access.size)
            loaded += v.load("global", where.at(at), access.size, 1, valid)
        return finish_load(v, access, loaded, old)

    return call


def _buffer_store(access: Access) -> Callable[..., object]:
    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        data: list[Value],
        registers: list[Value] | None,
        descriptor: list[Value],
        scalar_offset: Value,
    ) -> object:
        where = BufferAccess(v, i, registers, descriptor, scalar_offset, arch)
        for k, value in enumerate(stored(v, access, data)):
            at = k * access.size
            v.store("global", where.at(at), access.size, [value], where.inside(at + access.size))
        return ()

    return call


for _space, _address, _optional in (
    ("global", flat_address, " auto"),
    ("flat", flat_address, ""),
    ("scratch", scratch_address, " auto"),
):
    for _name, _access in LOADS.items():
        define(
            f"{_space}_load_{_name}",
            f"regs = inst oldregs auto{_optional}",
            _load(_space, _access, _address),
        )
    for _name, _access in STORES.items():
        define(
            f"{_space}_store_{_name}",
            f"= inst auto regs{_optional}",
            _store(_space, _access, _address),
        )
for _name, _access in STORES.items():
    define(f"buffer_store_{_name}", "= inst arch regs regs regs u32", _buffer_store(_access))


# Loads into LDS ----------------------------------------------------------------------------------
def _lds_destination(v: VectorApi, i: Instruction, m0: Value, bytes_per_lane: int) -> Value:
    """LDS address of each lane: M0, the instruction's offset, and the lane's own slot."""
    slot = v.mul(v.lane_id(), bytes_per_lane)
    return v.add(v.add(slot, v.bit_and(m0, 0x3FFFC)), i.mod("offset") & 0xFFFFFFFF)


def _to_lds(space: str, access: Access, address_of: Callable[..., Value]) -> Callable[..., object]:
    width = max(4, access.size * access.count)

    def call(
        v: VectorApi, i: Instruction, m0: Value, address: Value, base: Value | None = None
    ) -> object:
        where = address_of(v, i, address, base, access.size * access.count)
        loaded = finish_load(v, access, v.load(space, where, access.size, access.count), ())
        v.store("lds", _lds_destination(v, i, m0, width), 4, loaded)
        return ()

    return call


def _buffer_to_lds(access: Access) -> Callable[..., object]:
    width = max(4, access.size * access.count)

    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        m0: Value,
        registers: list[Value] | None,
        descriptor: list[Value],
        scalar_offset: Value,
    ) -> object:
        where = BufferAccess(v, i, registers, descriptor, scalar_offset, arch)
        loaded: list[Value] = []
        for k in range(access.count):
            at = k * access.size
            valid = where.inside(at + access.size)
            loaded += v.load("global", where.at(at), access.size, 1, valid)
        loaded = finish_load(v, access, loaded, ())
        v.store("lds", _lds_destination(v, i, m0, width), 4, loaded)
        return ()

    return call


def _buffer_any_load(access: Access) -> Callable[..., object]:
    to_register, to_lds = _buffer_load(access), _buffer_to_lds(access)

    def call(
        v: VectorApi, i: Instruction, arch: str, m0: Value, old: list[Value], *sources: Value
    ) -> object:
        if i.mod("lds"):
            to_lds(v, i, arch, m0, *sources)
            return ()
        return to_register(v, i, arch, old, *sources)

    return call


for _name, _access in LOADS.items():
    define(
        f"buffer_load_{_name}",
        "regs = inst arch m0 oldregs regs regs u32",
        _buffer_any_load(_access),
    )
for _name in ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4"):
    define(
        f"global_load_lds_{_name}",
        "= inst m0 auto auto",
        _to_lds("global", LOADS[_name], flat_address),
    )
for _name in ("ubyte", "sbyte", "ushort", "sshort", "dword"):
    define(
        f"scratch_load_lds_{_name}",
        "= inst m0 auto auto",
        _to_lds("scratch", LOADS[_name], scratch_address),
    )
