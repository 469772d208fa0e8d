"""Atomics against a loop over lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.semantics.value_types import U32, U64
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2


def bf16(x: Any) -> Any:
    bits = np.float32(x).view(np.uint32)
    return np.uint16((int(bits) + 0x7FFF + (int(bits) >> 16 & 1)) >> 16)


def packed(a: Any, b: Any, half: bool) -> int:
    out = 0
    for shift in (0, 16):
        x, y = (np.uint16(int(v) >> shift & 0xFFFF) for v in (a, b))
        if half:
            total = (x.view(np.float16) + y.view(np.float16)).view(np.uint16)
        else:
            total = bf16(sum(np.uint32(int(v) << 16).view(np.float32) for v in (x, y)))
        out |= int(total) << shift
    return out


UPDATE: dict[str, Callable[..., Any]] = {
    "swap": lambda _old, x: x,
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "rsub": lambda old, x: x - old,
    "min": min,
    "max": max,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "inc": lambda old, x: 0 if old >= x else old + 1,
    "dec": lambda old, x: x if old == 0 or old > x else old - 1,
    "cmpswap": lambda old, new, compared: new if old == compared else old,
    "sub_clamp": lambda old, x: old - x if old >= x else 0,
    "cond_sub": lambda old, x: old - x if old >= x else old,
    "mskor": lambda old, data, mask: old & ~mask | data,
    "wrap": lambda old, step, limit: old - limit if old >= limit else old + step,
    "pk_add_f16": lambda old, x: packed(old, x, True),
    "pk_add_bf16": lambda old, x: packed(old, x, False),
}
U, I, F32, F64 = np.uint32, np.int32, np.float32, np.float64
WIDE = {np.uint32: np.uint64, np.int32: np.int64}
PLAIN: dict[str, tuple[str, Any]] = {
    "swap": ("swap", U),
    "cmpswap": ("cmpswap", U),
    "add": ("add", U),
    "sub": ("sub", U),
    "smin": ("min", I),
    "umin": ("min", U),
    "smax": ("max", I),
    "umax": ("max", U),
    "and": ("and", U),
    "or": ("or", U),
    "xor": ("xor", U),
    "inc": ("inc", U),
    "dec": ("dec", U),
}
FLOATS: dict[str, tuple[str, Any]] = {
    "add_f32": ("add", F32),
    "add_f64": ("add", F64),
    "min_f64": ("min", F64),
    "max_f64": ("max", F64),
    "pk_add_f16": ("pk_add_f16", U),
    "pk_add_bf16": ("pk_add_bf16", U),
}
MEMORY = {
    **PLAIN,
    **{f"{n}_x2": (op, WIDE[t]) for n, (op, t) in PLAIN.items()},
    **FLOATS,
}
# The names of gfx11 and gfx12.
NEW_MEMORY: dict[str, tuple[str, Any]] = {
    "min_f32": ("min", F32),
    "max_f32": ("max", F32),
    "min_num_f32": ("min", F32),
    "max_num_f32": ("max", F32),
    "min_num_f64": ("min", F64),
    "max_num_f64": ("max", F64),
    "cmpswap_f32": ("cmpswap", F32),
    "csub_u32": ("sub_clamp", U),
    "sub_clamp_u32": ("sub_clamp", U),
    "cond_sub_u32": ("cond_sub", U),
}
for _n, _t in (("32", 0), ("64", 1)):
    _u, _i = (U, I) if not _t else (np.uint64, np.int64)
    for _verb in ("swap", "cmpswap", "and", "or", "xor"):
        NEW_MEMORY[f"{_verb}_b{_n}"] = (_verb, _u)
    for _verb in ("add", "sub", "min", "max", "inc", "dec"):
        NEW_MEMORY[f"{_verb}_u{_n}"] = (_verb, _u)
    for _verb in ("min", "max"):
        NEW_MEMORY[f"{_verb}_i{_n}"] = (_verb, _i)
ATOMICS = [("gfx942", name) for name in MEMORY] + [("gfx1201", name) for name in NEW_MEMORY]
TYPES = {
    "u32": U,
    "i32": I,
    "f32": F32,
    "b32": U,
    "u64": np.uint64,
    "i64": np.int64,
    "b64": np.uint64,
    "f64": F64,
}
DS_NAMES = (
    "add_u32 sub_u32 rsub_u32 inc_u32 dec_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32 "
    "xor_b32 cmpst_b32 add_f32 min_f32 max_f32 add_u64 sub_u64 rsub_u64 inc_u64 dec_u64 "
    "min_i64 max_i64 min_u64 max_u64 and_b64 or_b64 xor_b64 cmpst_b64 add_f64 min_f64 "
    "max_f64 pk_add_f16 pk_add_bf16"
).split()


def ds_operation(name: str) -> tuple[str, Any]:
    if name.startswith("pk"):
        return name, U
    verb, _, kind = name.rpartition("_")
    return {"cmpst": "cmpswap"}.get(verb, verb), TYPES[kind]


def ds_return(name: str) -> str:
    verb, _, kind = name.rpartition("_")
    return f"ds_{verb}_rtn_{kind}"


DS: dict[str, tuple[str, Any, bool]] = {}
for _n in DS_NAMES:
    DS[f"ds_{_n}"] = (*ds_operation(_n), False)
    DS[ds_return(_n)] = (*ds_operation(_n), True)
for _n, _t in (("b32", U), ("b64", np.uint64)):
    DS[f"ds_wrxchg_rtn_{_n}"] = DS[f"ds_storexchg_rtn_{_n}"] = ("swap", _t, True)
    DS[f"ds_mskor_{_n}"] = ("mskor", _t, False)
    DS[f"ds_mskor_rtn_{_n}"] = ("mskor", _t, True)
for _n, _t in TYPES.items():
    if _n[0] in "bf":
        DS[f"ds_cmpstore_{_n}"] = ("cmpswap", _t, False)
        DS[f"ds_cmpstore_rtn_{_n}"] = ("cmpswap", _t, True)
    if _n[0] == "f":
        for _verb in ("min", "max"):
            DS[f"ds_{_verb}_num_{_n}"] = (_verb, _t, False)
            DS[f"ds_{_verb}_num_rtn_{_n}"] = (_verb, _t, True)
for _verb in ("sub_clamp", "cond_sub"):
    DS[f"ds_{_verb}_u32"] = (_verb, U, False)
    DS[f"ds_{_verb}_rtn_u32"] = (_verb, U, True)
DS["ds_wrap_rtn_b32"] = ("wrap", U, True)
# Operations with two operands; the second of the update function comes first in the instruction,
# but for ds_cmpstore.
PAIRS = ("cmpswap", "mskor", "wrap")


class Scene:
    """Eight contended slots per workgroup, random lanes, random EXEC."""

    def __init__(self, dtype: Any, operation: str, space: str, arch: str = "gfx942") -> None:
        self.rng = np.random.default_rng(11)
        self.size = np.dtype(dtype).itemsize
        self.dtype = dtype
        count = 8
        self.memory = self.some(count * WAVES)
        self.bench = InstructionBench(arch, WAVES, 256, 64, [self.memory])
        self.lanes = lanes = self.bench.lane_count
        self.exec = self.rng.random((WAVES, lanes)) < 0.8
        self.bench.set_exec(self.exec)
        self.slots = self.rng.integers(0, count, (WAVES, lanes))
        if space == "lds":
            self.bench.lds[:, : count * self.size] = self.memory.view(np.uint8).reshape(WAVES, -1)
        else:
            self.slots += np.arange(WAVES)[:, None] * count
        self.data = self.some(WAVES * lanes).reshape(WAVES, lanes)
        self.compared = self.data.copy()
        if operation == "cmpswap":
            base = self.memory.reshape(WAVES, count) if space == "lds" else self.memory
            start = np.take_along_axis(base, self.slots, 1) if space == "lds" else base[self.slots]
            hit = self.rng.random((WAVES, lanes)) < 0.5
            self.compared = np.where(hit, start, self.compared)
        if operation in ("inc", "dec"):
            self.data = (self.data % 40).astype(dtype)
            self.memory[...] = self.memory % 40
            if space == "lds":
                self.bench.lds[:, : count * self.size] = self.memory.view(np.uint8).reshape(
                    WAVES, -1
                )

    def some(self, count: int) -> Array:
        if np.dtype(self.dtype).kind == "f":
            return (self.rng.standard_normal(count) * 8).round(2).astype(self.dtype)
        if self.dtype is U:
            # Valid halves for the packed forms as well: no infinities, no NaNs.
            return self.rng.integers(0, 2**32, count, dtype=np.uint64).astype(U) & U(0xBBFFBBFF)
        info = np.iinfo(self.dtype)
        return self.rng.integers(info.min, info.max, count, dtype=self.dtype, endpoint=True)

    def place(self, operand: Operand, value: Array) -> None:
        """Put a value of the scene's type into vector registers."""
        bits = value.view(f"u{self.size}").astype(np.uint64)
        self.bench.write(operand, bits, U64 if self.size == 8 else U32)

    def expected(self, operation: str, initial: Array) -> tuple[Array, Array]:
        memory, old = initial.copy(), np.zeros((WAVES, self.lanes), self.dtype)
        for wave in range(WAVES):
            for lane in range(self.lanes):
                if not self.exec[wave, lane]:
                    continue
                at = int(self.slots[wave, lane])
                before = memory[at]
                old[wave, lane] = before
                extra = (self.compared[wave, lane],) if operation in PAIRS else ()
                with np.errstate(all="ignore"):
                    after = UPDATE[operation](before, self.data[wave, lane], *extra)
                memory[at] = np.asarray(after).astype(self.dtype)
        return memory, old

    def returned(self, operand: Operand) -> Array:
        low = self.bench.state.vector[operand.index].astype(np.uint64)
        if self.size == 8:
            low |= self.bench.state.vector[operand.index + 1].astype(np.uint64) << np.uint64(32)
        return low.astype(f"u{self.size}").view(self.dtype)


@pytest.mark.opcodes("{space}_atomic_{name}")
@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("space", ["global", "flat", "buffer"])
@pytest.mark.parametrize(("arch", "name"), ATOMICS)
def test_memory_atomic(arch: str, space: str, name: str, returns: bool) -> None:
    operation, dtype = (MEMORY if arch == "gfx942" else NEW_MEMORY)[name]
    scene = Scene(dtype, operation, space, arch)
    registers = scene.size // 4
    data = Operand("v", 20, registers * (2 if operation == "cmpswap" else 1))
    scene.place(Operand("v", 20, registers), scene.data)
    if operation == "cmpswap":
        scene.place(Operand("v", 20 + registers, registers), scene.compared)
    # gfx11 has glc, and gfx12 an odd temporal hint.
    asking = {"gfx942": {"sc0": 1}}.get(arch, {"glc": 1} if dtype is U else {"th": 1})
    mods = asking if returns else {}
    want, old = scene.expected(operation, scene.memory)
    result = Operand("v", 40, registers)
    mnemonic = f"{space}_atomic_{name}"
    if space == "buffer":
        start = scene.memory.ctypes.data
        for k, word in enumerate((start & 0xFFFFFFFF, start >> 32, scene.memory.nbytes, 3 << 28)):
            scene.bench.state.scalar[16 + k] = word
        scene.bench.write(Operand("v", 8, 1), scene.slots * scene.size, U32)
        operands: tuple[Operand, ...] = (
            data,
            Operand("v", 8, 1),
            Operand("s", 16, 4),
            Operand("i"),
        )
        i = Instruction(0, 8, "MUBUF", mnemonic, "", operands, {**mods, "offen": 1})
        result = Operand("v", 20, registers)
    else:
        address = scene.memory.ctypes.data + scene.slots * scene.size
        scene.bench.write(Operand("v", 8, 2), address, U64)
        tail = (Operand("off"),) if space == "global" else ()
        operands = (*((result,) if returns else ()), Operand("v", 8, 2), data, *tail)
        i = Instruction(0, 8, "FLAT2", mnemonic, "", operands, mods)
    scene.bench.execute(i)
    assert np.array_equal(scene.memory, want)
    if returns:
        assert np.array_equal(scene.returned(result)[scene.exec], old[scene.exec])


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("name", DS)
def test_lds_atomic(name: str, arch: str) -> None:
    operation, dtype, returns = DS[name]
    scene = Scene(dtype, operation, "lds", arch)
    registers = scene.size // 4
    first, second = Operand("v", 20, registers), Operand("v", 24, registers)
    result = Operand("v", 40, registers)
    scene.bench.write(Operand("v", 8, 1), scene.slots * scene.size, U32)
    data: tuple[Operand, ...] = (first,)
    scene.place(first, scene.data)
    if operation in PAIRS:
        swapped = "cmpstore" not in name
        scene.place(first, scene.compared if swapped else scene.data)
        scene.place(second, scene.data if swapped else scene.compared)
        data = (first, second)
    initial = scene.memory.reshape(WAVES, 8)
    slots = scene.slots.copy()
    scene.slots = slots + np.arange(WAVES)[:, None] * 8
    want, old = scene.expected(operation, initial.reshape(-1))
    operands = (*((result,) if returns else ()), Operand("v", 8, 1), *data)
    scene.bench.execute(Instruction(0, 8, "DS", name, "", operands))
    got = scene.bench.lds[:, : 8 * scene.size].copy().view(dtype)
    assert np.array_equal(got.reshape(-1), want)
    if returns:
        assert np.array_equal(scene.returned(result)[scene.exec], old[scene.exec])


def test_misaligned_atomics_are_refused() -> None:
    scene = Scene(U, "add", "lds")
    scene.bench.write(Operand("v", 8, 1), scene.slots * 4 + 2, U32)
    i = Instruction(0, 8, "DS", "ds_add_u32", "", (Operand("v", 8, 1), Operand("v", 20, 1)))
    with pytest.raises(KernelFault, match="aligned"):
        scene.bench.execute(i)
