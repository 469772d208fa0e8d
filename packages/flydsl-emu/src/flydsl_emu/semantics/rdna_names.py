"""Mnemonics of gfx11 and gfx12 for opcodes that gfx9 names otherwise."""

from __future__ import annotations

# The modules that define the opcodes named here.
from flydsl_emu.semantics import (
    atomics,
    lds,
    lds_special,
    salu,
    smem,
    valu_compare,
    valu_convert,
    valu_float,
    valu_integer,
    valu_packed,
    vmem,
)
from flydsl_emu.semantics.registry import REGISTRY, alias

__all__ = ["DEFINING"]

DEFINING = (
    atomics,
    lds,
    lds_special,
    salu,
    smem,
    valu_compare,
    valu_convert,
    valu_float,
    valu_integer,
    valu_packed,
    vmem,
)
"""Modules whose opcodes get further names here."""

_ALU = """
    v_add_nc_u32 v_add_u32            v_sub_nc_u32 v_sub_u32         v_subrev_nc_u32 v_subrev_u32
    v_add_nc_i32 v_add_i32            v_sub_nc_i32 v_sub_i32
    v_add_nc_u16 v_add_u16            v_sub_nc_u16 v_sub_u16
    v_add_nc_i16 v_add_i16            v_sub_nc_i16 v_sub_i16
    v_add_co_ci_u32 v_addc_co_u32     v_sub_co_ci_u32 v_subb_co_u32
    v_subrev_co_ci_u32 v_subbrev_co_u32
    v_mad_co_u64_u32 v_mad_u64_u32    v_mad_co_i64_i32 v_mad_i64_i32
    v_clz_i32_u32 v_ffbh_u32          v_cls_i32 v_ffbh_i32           v_ctz_i32_b32 v_ffbl_b32
    v_cmp_t_f16 v_cmp_tru_f16         v_cmp_t_f32 v_cmp_tru_f32      v_cmp_t_f64 v_cmp_tru_f64
    v_cmpx_t_f16 v_cmpx_tru_f16       v_cmpx_t_f32 v_cmpx_tru_f32    v_cmpx_t_f64 v_cmpx_tru_f64
    v_cvt_floor_i32_f32 v_cvt_flr_i32_f32
    v_cvt_nearest_i32_f32 v_cvt_rpi_i32_f32
    v_cvt_pk_norm_i16_f16 v_cvt_pknorm_i16_f16
    v_cvt_pk_norm_u16_f16 v_cvt_pknorm_u16_f16
    v_cvt_pk_norm_i16_f32 v_cvt_pknorm_i16_f32
    v_cvt_pk_norm_u16_f32 v_cvt_pknorm_u16_f32
    v_cvt_pk_rtz_f16_f32 v_cvt_pkrtz_f16_f32
    v_mul_dx9_zero_f32 v_mul_legacy_f32
    v_dot2acc_f32_f16 v_dot2c_f32_f16 v_dot2acc_f32_bf16 v_dot2c_f32_bf16
    v_max_num_f16 v_max_f16           v_max_num_f32 v_max_f32        v_max_num_f64 v_max_f64
    v_min_num_f16 v_min_f16           v_min_num_f32 v_min_f32        v_min_num_f64 v_min_f64
    v_max3_num_f16 v_max3_f16         v_max3_num_f32 v_max3_f32
    v_min3_num_f16 v_min3_f16         v_min3_num_f32 v_min3_f32
    v_med3_num_f16 v_med3_f16         v_med3_num_f32 v_med3_f32
    v_pk_max_num_f16 v_pk_max_f16     v_pk_min_num_f16 v_pk_min_f16
    s_and_not1_b32 s_andn2_b32        s_and_not1_b64 s_andn2_b64
    s_or_not1_b32 s_orn2_b32          s_or_not1_b64 s_orn2_b64
    s_clz_i32_u32 s_flbit_i32_b32     s_clz_i32_u64 s_flbit_i32_b64
    s_cls_i32 s_flbit_i32             s_cls_i32_i64 s_flbit_i32_i64
    s_ctz_i32_b32 s_ff1_i32_b32       s_ctz_i32_b64 s_ff1_i32_b64
    s_add_co_u32 s_add_u32            s_add_co_ci_u32 s_addc_u32
    s_sub_co_u32 s_sub_u32            s_sub_co_ci_u32 s_subb_u32
    s_add_co_i32 s_add_i32            s_sub_co_i32 s_sub_i32         s_addk_co_i32 s_addk_i32
""".split()

_LOADS = {
    "u8": "ubyte",
    "i8": "sbyte",
    "u16": "ushort",
    "i16": "sshort",
    "b32": "dword",
    "b64": "dwordx2",
    "b96": "dwordx3",
    "b128": "dwordx4",
    "d16_u8": "ubyte_d16",
    "d16_hi_u8": "ubyte_d16_hi",
    "d16_i8": "sbyte_d16",
    "d16_hi_i8": "sbyte_d16_hi",
    "d16_b16": "short_d16",
    "d16_hi_b16": "short_d16_hi",
}
_STORES = {
    "b8": "byte",
    "b16": "short",
    "b32": "dword",
    "b64": "dwordx2",
    "b96": "dwordx3",
    "b128": "dwordx4",
    "d16_hi_b8": "byte_d16_hi",
    "d16_hi_b16": "short_d16_hi",
}
_SCALAR = {
    "b32": "dword",
    "b64": "dwordx2",
    "b128": "dwordx4",
    "b256": "dwordx8",
    "b512": "dwordx16",
}
_ATOMICS = {
    "swap_b32": "swap",
    "cmpswap_b32": "cmpswap",
    "add_u32": "add",
    "sub_u32": "sub",
    "min_i32": "smin",
    "min_u32": "umin",
    "max_i32": "smax",
    "max_u32": "umax",
    "and_b32": "and",
    "or_b32": "or",
    "xor_b32": "xor",
    "inc_u32": "inc",
    "dec_u32": "dec",
}
_LDS_VERBS = {
    "read": "load",
    "read2": "load_2addr",
    "read2st64": "load_2addr_stride64",
    "write": "store",
    "write2": "store_2addr",
    "write2st64": "store_2addr_stride64",
}
_LDS_ATOMICS = {
    "storexchg_rtn_b32": "wrxchg_rtn_b32",
    "storexchg_rtn_b64": "wrxchg_rtn_b64",
}


_EXEC = {"and_not0": "andn1", "and_not1": "andn2", "or_not0": "orn1", "or_not1": "orn2"}


def _define() -> None:
    for new, old in _EXEC.items():
        for bits in ("b32", "b64"):
            alias(f"s_{new}_saveexec_{bits}", f"s_{old}_saveexec_{bits}")
            if new.startswith("and"):
                alias(f"s_{new}_wrexec_{bits}", f"s_{old}_wrexec_{bits}")
    for new, old in zip(_ALU[0::2], _ALU[1::2], strict=True):
        alias(new, old)
    for space in ("global", "flat", "scratch", "buffer"):
        for new, old in _LOADS.items():
            alias(f"{space}_load_{new}", f"{space}_load_{old}")
        for new, old in _STORES.items():
            alias(f"{space}_store_{new}", f"{space}_store_{old}")
    for space in ("global", "flat", "buffer"):
        for new, old in _ATOMICS.items():
            alias(f"{space}_atomic_{new}", f"{space}_atomic_{old}")
            wide = new[:-2] + "64"
            alias(f"{space}_atomic_{wide}", f"{space}_atomic_{old}_x2")
    for new, old in _SCALAR.items():
        alias(f"s_load_{new}", f"s_load_{old}")
        alias(f"s_buffer_load_{new}", f"s_buffer_load_{old}")
    for name in [n for n in REGISTRY if n.startswith(("ds_read", "ds_write"))]:
        verb, _, rest = name[3:].partition("_")
        if verb in _LDS_VERBS and not rest.startswith("b64_tr"):
            alias(f"ds_{_LDS_VERBS[verb]}_{rest}", name)
    for new, old in _LDS_ATOMICS.items():
        alias(f"ds_{new}", f"ds_{old}")


_define()
