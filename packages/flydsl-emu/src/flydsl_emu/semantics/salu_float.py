"""Float arithmetic, comparisons and conversions of the scalar ALU, and its 64-bit integers (gfx12).

A 16-bit result clears the upper half of its register.
"""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import high16, low16, pack16
from flydsl_emu.semantics.registry import alias, define, opcode
from flydsl_emu.semantics.valu_compare import FLOAT_COMPARISONS
from flydsl_emu.semantics.valu_convert import half_toward_zero
from flydsl_emu.semantics.valu_float import propagating
from flydsl_emu.semantics.value_types import F16, F32, I32, U16, U32

__all__: list[str] = []


def _call(name: str) -> Callable[..., Value]:
    return lambda v, *sources: getattr(v, name)(*sources)


def _ieee(name: str) -> Callable[..., Value]:
    return lambda v, a, b: propagating(v, name, a, b)


for _t in ("f16", "f32"):
    _one, _two = f"{_t} = {_t}", f"{_t} = {_t} {_t}"
    for _name in ("add", "sub", "mul"):
        define(f"s_{_name}_{_t}", _two, _call(_name))
    define(f"s_min_num_{_t}", _two, _call("min"))
    define(f"s_max_num_{_t}", _two, _call("max"))
    define(f"s_minimum_{_t}", _two, _ieee("min"))
    define(f"s_maximum_{_t}", _two, _ieee("max"))
    define(f"s_fmac_{_t}", f"{_t} = {_t} {_t} old", _call("fma"))
    for _name, _method in (
        ("ceil", "ceil"),
        ("floor", "floor"),
        ("trunc", "trunc"),
        ("rndne", "rint"),
    ):
        define(f"s_{_name}_{_t}", _one, _call(_method))
    for _name, _compare in FLOAT_COMPARISONS.items():
        if _name not in ("f", "tru"):
            define(f"s_cmp_{_name}_{_t}", f"scc = {_t} {_t}", _compare)
# Names of gfx11.5.
for _t in ("f16", "f32"):
    alias(f"s_min_{_t}", f"s_min_num_{_t}")
    alias(f"s_max_{_t}", f"s_max_num_{_t}")
define("s_fmaak_f32", "f32 = f32 f32 f32", _call("fma"))
define("s_fmamk_f32", "f32 = f32 f32 f32", _call("fma"))

define("s_cvt_f32_i32", "f32 = i32", lambda v, x: v.convert(x, F32))
define("s_cvt_f32_u32", "f32 = u32", lambda v, x: v.convert(x, F32))
define("s_cvt_i32_f32", "i32 = f32", lambda v, x: v.truncate(x, I32))
define("s_cvt_u32_f32", "u32 = f32", lambda v, x: v.truncate(x, U32))
define("s_cvt_f16_f32", "f16 = f32", lambda v, x: v.convert(x, F16))
define("s_cvt_f32_f16", "f32 = f16", lambda v, x: v.convert(x, F32))


@opcode("s_cvt_hi_f32_f16", "f32 = u32")
def _from_high_half(v: VectorApi, x: Value) -> Value:
    return v.convert(v.cast(v.convert(high16(v, x), U16), F16), F32)


@opcode("s_cvt_pk_rtz_f16_f32", "u32 = f32 f32")
def _pack_toward_zero(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, half_toward_zero(v, a), half_toward_zero(v, b))


# Transcendentals of one value, issued by the vector ALU ------------------------------------------
for _t in ("f16", "f32"):
    for _name in ("exp", "log", "rcp", "rsq", "sqrt"):
        # The vector opcode of the same name, on a uniform value.
        alias(f"v_s_{_name}_{_t}", f"v_{_name}_{_t}")

define("s_add_nc_u64", "u64 = u64 u64", "add")
define("s_sub_nc_u64", "u64 = u64 u64", "sub")
define("s_mul_u64", "u64 = u64 u64", "mul")


@opcode("s_pack_hl_b32_b16", "u32 = u32 u32")
def _pack_high_low(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, high16(v, a), low16(v, b))
