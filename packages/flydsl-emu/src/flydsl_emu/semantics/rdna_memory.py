"""Memory operations that only gfx11 or gfx12 have: further atomics and exchanges in LDS."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.atomics import buffer_atomic, flat_atomic, lds_atomic
from flydsl_emu.semantics.bits import join64, split64
from flydsl_emu.semantics.registry import alias, define, opcode
from flydsl_emu.semantics.value_types import F32, F64, U32, U64, Type

__all__: list[str] = []

# Mnemonic part -> (operation, element type).
_GLOBAL: dict[str, tuple[str, Type]] = {
    "min_f32": ("min", F32),
    "max_f32": ("max", F32),
    "min_num_f32": ("min", F32),
    "max_num_f32": ("max", F32),
    "min_num_f64": ("min", F64),
    "max_num_f64": ("max", F64),
    "cmpswap_f32": ("cmpswap", F32),
    "csub_u32": ("sub_clamp", U32),
    "sub_clamp_u32": ("sub_clamp", U32),
    "cond_sub_u32": ("cond_sub", U32),
}
for _name, (_operation, _type) in _GLOBAL.items():
    define(
        f"global_atomic_{_name}",
        "returned.regs = inst auto regs auto",
        flat_atomic("global", _operation, _type),
    )
    define(
        f"flat_atomic_{_name}",
        "returned.regs = inst auto regs",
        flat_atomic("flat", _operation, _type),
    )
    define(
        f"buffer_atomic_{_name}",
        "replaced.regs = inst arch regs regs regs u32",
        buffer_atomic(_operation, _type),
    )

# LDS: name -> (operation, element type, data operands).
_LDS: dict[str, tuple[str, Type, int]] = {
    "sub_clamp_u32": ("sub_clamp", U32, 1),
    "cond_sub_u32": ("cond_sub", U32, 1),
    "cmpstore_b32": ("cmpswap", U32, 2),
    "cmpstore_b64": ("cmpswap", U64, 2),
    "cmpstore_f32": ("cmpswap", F32, 2),
    "cmpstore_f64": ("cmpswap", F64, 2),
    "mskor_b32": ("mskor", U32, 2),
    "mskor_b64": ("mskor", U64, 2),
}
for _name, (_operation, _type, _count) in _LDS.items():
    _data = " regs" * _count
    _verb, _, _rest = _name.rpartition("_")
    define(f"ds_{_name}", f"= inst u32{_data}", lds_atomic(_operation, _type, False, False))
    define(
        f"ds_{_verb}_rtn_{_rest}",
        f"regs = inst u32{_data}",
        lds_atomic(_operation, _type, True, False),
    )
define("ds_wrap_rtn_b32", "regs = inst u32 regs regs", lds_atomic("wrap", U32, True, False))
for _t in ("f32", "f64"):
    for _which in ("min", "max"):
        alias(f"ds_{_which}_num_{_t}", f"ds_{_which}_{_t}")
        alias(f"ds_{_which}_num_rtn_{_t}", f"ds_{_which}_rtn_{_t}")


def _exchange_two(type: Type, stride: int) -> Callable[..., object]:
    """Return the exchange of two elements at offsets in units of `stride` bytes."""

    def call(
        v: VectorApi, i: Instruction, address: Value, first: list[Value], second: list[Value]
    ) -> object:
        out: list[Value] = []
        for name, words in (("offset0", first), ("offset1", second)):
            data = words[0] if type is U32 else join64(v, words[0], words[1])
            where = v.add(address, i.mod(name) * stride)
            old = v.atomic("lds", "swap", where, [data], None)
            out += [old] if type is U32 else split64(v, old)
        return out

    return call


for _bits, _type in (("32", U32), ("64", U64)):
    for _tag, _unit in (("", 1), ("_stride64", 64)):
        define(
            f"ds_storexchg_2addr{_tag}_rtn_b{_bits}",
            "regs = inst u32 regs regs",
            _exchange_two(_type, _unit * _type.bits // 8),
        )


@opcode("ds_bpermute_fi_b32", "u32 = inst u32 u32")
def _pull_from_any(v: VectorApi, i: Instruction, address: Value, data: Value) -> Value:
    """Each lane reads `data` of the lane whose byte number it names, executing or not."""
    return v.shuffle(data, v.shr(v.add(address, i.mod("offset")), 2))
