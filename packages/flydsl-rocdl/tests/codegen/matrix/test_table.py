"""Every matrix operation becomes exactly its instruction, or is refused with what there is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flydsl.dialects.atoms import MmaOp
from flydsl.errors import TargetError
from flydsl.layout import get, size
from flydsl_rocdl.arch import KNOWN, lookup
from flydsl_rocdl.atoms import MFMA, SMFMAC, SWMMAC, WMMA, MFMA_Scale, WMMAScale
from flydsl_rocdl.atoms.checks import instruction_for

ARCHES = ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"]
FLOATS = {
    "fnuz": {"fp8": "f8E4M3FNUZ", "bf8": "f8E5M2FNUZ"},
    "ocp": {"fp8": "f8E4M3FN", "bf8": "f8E5M2"},
}
SMALL = {"fp8": "f8E4M3FN", "bf8": "f8E5M2", "fp6": "f6E2M3FN", "bf6": "f6E3M2FN"}
SMALL["fp4"] = "f4E2M1FN"
MIXES = [(a, b) for a in ("fp8", "bf8") for b in ("fp8", "bf8")]

# What the instruction set references list, written apart from the product's tables: result type,
# shape with blocks, operand types.
CDNA = """
f32_32x32x1_2b_f32 f32_16x16x1_4b_f32 f32_4x4x1_16b_f32 f32_32x32x2_f32 f32_16x16x4_f32
f32_32x32x4_2b_f16 f32_16x16x4_4b_f16 f32_4x4x4_16b_f16 f32_32x32x8_f16 f32_16x16x16_f16
f32_32x32x4_2b_bf16 f32_16x16x4_4b_bf16 f32_4x4x4_16b_bf16 f32_32x32x8_bf16 f32_16x16x16_bf16
i32_32x32x4_2b_i8 i32_16x16x4_4b_i8 i32_4x4x4_16b_i8 i32_32x32x16_i8 i32_16x16x32_i8
f64_16x16x4_f64 f64_4x4x4_4b_f64
""".split()
CDNA3_ONLY = ["f32_16x16x8_xf32", "f32_32x32x4_xf32"]
CDNA4_ONLY = """
f32_32x32x16_f16 f32_16x16x32_f16 f32_32x32x16_bf16 f32_16x16x32_bf16
i32_32x32x32_i8 i32_16x16x64_i8
""".split()
SPARSE = "f32_16x16x32_{} f32_32x32x16_{}".split()
SPARSE4 = "f32_16x16x64_{} f32_32x32x32_{}".split()
ARRANGED = {
    (4, 16): [(4, 64), (64, 4), (8, 32), (32, 8), (4, 4)],
    (16, 4): [(16, 64), (64, 16)],
    (32, 2): [(32, 64), (64, 32)],
    (4, 4): [(4, 16), (16, 4), (8, 8)],
}


def _dense_names(arch: str) -> list[str]:
    names = CDNA + (CDNA3_ONLY if arch == "gfx942" else CDNA4_ONLY)
    return names + [f"f32_{s}_{a}_{b}" for s in ("16x16x32", "32x32x16") for a, b in MIXES]


def _sparse_names(arch: str) -> list[str]:
    names = [s.format(e) for s in SPARSE for e in ("f16", "bf16")]
    names += ["i32_16x16x64_i8", "i32_32x32x32_i8"]
    shapes = ["16x16x64", "32x32x32"]
    if arch == "gfx950":
        names += [s.format(e) for s in SPARSE4 for e in ("f16", "bf16")]
        names += ["i32_16x16x128_i8", "i32_32x32x64_i8"]
        shapes += ["16x16x128", "32x32x64"]
    return names + [f"f32_{s}_{a}_{b}" for s in shapes for a, b in MIXES]


def _parsed(name: str, flavour: str) -> tuple[str, tuple[int, ...], int, str, str]:
    found = re.fullmatch(r"(\w+?)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(\w+)", name)
    assert found is not None
    a, _, b = found[6].partition("_")
    types = [FLOATS[flavour].get(t, t) for t in (a, b or a)]
    return found[1], tuple(int(found[i]) for i in (2, 3, 4)), int(found[5] or 1), *types  # type: ignore[return-value]


def _cdna(arch: str) -> Iterator[tuple[str, MmaOp]]:
    flavour = "fnuz" if arch == "gfx942" else "ocp"
    for name in _dense_names(arch):
        acc, (m, n, k), blocks, a, b = _parsed(name, flavour)
        for rows, columns in ARRANGED[m, blocks] if blocks > 1 else [(m, n)]:
            yield f"v_mfma_{name}", MFMA(rows, columns, k, a, b, acc)
    for name in _sparse_names(arch):
        acc, (m, n, k), _, a, b = _parsed(name, flavour)
        yield f"v_smfmac_{name}", SMFMAC(m, n, k, a, b, acc)
    if arch == "gfx950":
        for m, k in ((16, 128), (32, 64)):
            for a in SMALL.values():
                for b in SMALL.values():
                    atom = MFMA_Scale(m, m, k, a, b, "f32")
                    yield f"v_mfma_scale_f32_{m}x{m}x{k}_f8f6f4", atom


def _halves(family: str, k: int) -> Iterator[tuple[str, str, str, str]]:
    for acc, e in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("bf16", "bf16")):
        yield f"v_{family}_{acc}_16x16x{k}_{e}", e, e, acc


def _rdna(arch: str) -> Iterator[tuple[str, MmaOp]]:
    copies = 2 if arch == "gfx1100" else 1
    for name, a, b, acc in _halves("wmma", 16):
        yield name, WMMA(16, 16, 16, a, b, acc, copies)
    for k, e in ((16, 8), (16, 4), (32, 4)):
        if k == 16 or copies == 1:
            atom = WMMA(16, 16, k, f"i{e}", f"i{e}", "i32", copies)
            yield f"v_wmma_i32_16x16x{k}_iu{e}", atom
    if arch == "gfx1201":
        for x, y in MIXES:
            a, b = SMALL[x], SMALL[y]
            yield f"v_wmma_f32_16x16x16_{x}_{y}", WMMA(16, 16, 16, a, b, "f32")
            yield f"v_swmmac_f32_16x16x32_{x}_{y}", SWMMAC(16, 16, 32, a, b, "f32")
        for name, a, b, acc in _halves("swmmac", 32):
            yield name, SWMMAC(16, 16, 32, a, b, acc)
        for k, e in ((32, 8), (32, 4), (64, 4)):
            yield f"v_swmmac_i32_16x16x{k}_iu{e}", SWMMAC(16, 16, k, f"i{e}", f"i{e}", "i32")


def _gfx1250() -> Iterator[tuple[str, MmaOp]]:
    last = {"interleaved": True}
    yield "v_wmma_f32_16x16x4_f32", WMMA(16, 16, 4, "f32", "f32", "f32", **last)
    for name, a, b, acc in _halves("wmma", 32):
        yield name, WMMA(16, 16, 32, a, b, acc, **last)
    yield "v_wmma_i32_16x16x64_iu8", WMMA(16, 16, 64, "i8", "i8", "i32", **last)
    for acc in ("f32", "f16"):
        for k in (64, 128):
            for x, y in MIXES:
                atom = WMMA(16, 16, k, SMALL[x], SMALL[y], acc, **last)
                yield f"v_wmma_{acc}_16x16x{k}_{x}_{y}", atom
    for block, name in ((32, "scale"), (16, "scale16")):
        for a in SMALL.values():
            for b in SMALL.values():
                atom = WMMAScale(16, 16, 128, a, b, "f32", block_size=block)
                yield f"v_wmma_{name}_f32_16x16x128_f8f6f4", atom
        wide = WMMAScale(32, 16, 128, SMALL["fp4"], SMALL["fp4"], "f32", block_size=block)
        yield f"v_wmma_{name}_f32_32x16x128_f4", wide


def _table(arch: str) -> list[tuple[str, MmaOp]]:
    if arch in ("gfx942", "gfx950"):
        return list(_cdna(arch))
    return list(_gfx1250() if arch == "gfx1250" else _rdna(arch))


def _extras(atom: MmaOp) -> tuple[str, str, str]:
    """Return parameters, operands and types of the scales or of the index."""
    names = {"scale_a": "%sa", "scale_b": "%sb", "index": "%sa"}
    given = [(names[name], kind) for name, kind in atom.state.items()]
    return (
        "".join(f", {name}: {kind}" for name, kind in given),
        "".join(f", {name}" for name, _ in given),
        "".join(f", {kind}" for _, kind in given),
    )


def _function(number: int, atom: MmaOp) -> str:
    """Return a kernel that loads fragments, multiplies and stores."""
    kinds = dict(zip("abc", atom.elements[:3], strict=True))
    counts = {n: size(get(atom.layout_tv(n.upper()), 1)) for n in "abc"}
    pointers = {n: f'!fly.ptr<{kinds[n]}, "global", 16 : i64, "">' for n in "abc"}
    vectors = {n: f"vector<{counts[n]}x{kinds[n]}>" for n in "abc"}
    loads = "\n".join(
        f'%v{n} = "fly.ptr_load"(%{n}) : ({pointers[n]}) -> {vectors[n]}' for n in "abc"
    )
    parameters, operands, types = _extras(atom)
    sizes = ", ".join(["1"] * 4 + ["1" if i < len(atom.state) else "0" for i in range(2)])
    kind = f'!fly.mma_atom<"{atom}">'
    arguments = ", ".join(f"%{n}: {pointers[n]}" for n in "abc")
    return f"""
      gpu.func @k{number}({arguments}{parameters}) kernel
          attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
        {loads}
        %atom = "fly.make_mma_atom"() : () -> {kind}
        %r = "fly.mma_atom_call_ssa"(%atom, %va, %vb, %vc{operands})
          {{operandSegmentSizes = array<i32: {sizes}>}} :
          ({kind}, {vectors["a"]}, {vectors["b"]}, {vectors["c"]}{types}) -> {vectors["c"]}
        "fly.ptr_store"(%r, %c) : ({vectors["c"]}, {pointers["c"]}) -> ()
        gpu.return
      }}"""


def _matrix_instructions(isa: str) -> dict[int, list[str]]:
    """Return the matrix instructions of each kernel ``k<number>``."""
    found: dict[int, list[str]] = {}
    current = -1
    for line in isa.splitlines():
        label = re.match(r"k(\d+):", line)
        if label:
            current = int(label[1])
            found[current] = []
        elif re.match(r"\s+v_(s?mfma|smfmac|s?wmma)", line):
            found[current].append(line.split()[0])
    return found


@pytest.mark.parametrize("arch", ARCHES)
def test_each_operation_is_its_instruction(build: Callable[..., Any], arch: str) -> None:
    table = _table(arch)
    functions = "\n".join(_function(i, atom) for i, (_, atom) in enumerate(table))
    code = build(f"gpu.module @m {{ {functions} }}", arch)
    found = _matrix_instructions(code.isa)
    for number, (name, atom) in enumerate(table):
        got = [x.removesuffix("_e64") for x in found[number]]
        assert got == [name], f"{atom} became {found[number]}"
        assert instruction_for(lookup(arch), atom).mnemonic == name


@pytest.mark.parametrize("arch", ARCHES)
def test_nothing_is_listed_that_the_table_lacks(arch: str) -> None:
    listed = {shape.mnemonic for shape in lookup(arch).matrix if shape.family != "swmmac"}
    listed |= {s.mnemonic for s in lookup(arch).matrix if arch != "gfx1250"}
    assert listed == {name for name, _ in _table(arch)}


@pytest.mark.parametrize("arch", list(KNOWN))
def test_operations_of_other_architectures_are_refused(arch: str) -> None:
    facts = lookup(arch)
    own = {shape.mnemonic for shape in facts.matrix}
    accepted, refused = 0, 0
    for other in ARCHES:
        for name, atom in _table(other):
            alike = lookup(other).fp8 == facts.fp8 or not {"fp8", "bf8"} & set(name.split("_"))
            layout = lookup(other).has & {"wmma-copies", "wmma-reuse"}
            same = atom.prefix != "wmma" or layout == facts.has & {"wmma-copies", "wmma-reuse"}
            if name in own and alike and same:
                accepted += 1
                instruction_for(facts, atom)
                continue
            refused += 1
            with pytest.raises(TargetError) as caught:
                instruction_for(facts, atom)
            assert caught.value.code == "FLY-T634"
            assert caught.value.allowed
            if name not in own:
                assert all(str(s) in caught.value.allowed
                           for s in facts.matrix if s.family == atom.prefix)  # fmt: skip
    assert accepted
    assert refused
