"""The built-in linker against ``ld.lld -shared``, section by section."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flydsl.errors import CompilerBug, TargetError
from flydsl_rocdl.hsaco import link_object, link_with_lld, read_elf
from flydsl_rocdl.hsaco.elf import SHF_ALLOC

MODULES = sorted((Path(__file__).parent / "modules").glob("*.ll"))
ARCHITECTURES = ["gfx942", "gfx950", "gfx1100", "gfx1201"]

Compile = Callable[..., bytes]
Tool = Callable[..., str]


@pytest.fixture(params=[(m, a) for m in MODULES for a in ARCHITECTURES],
                ids=lambda p: f"{p[0].stem}-{p[1]}")  # fmt: skip
def pair(request: pytest.FixtureRequest, compile_object: Compile, lld: str) -> tuple[bytes, bytes]:
    """One object linked by us and by lld."""
    source, cpu = request.param
    data = compile_object(source.read_text(), cpu, 0 if source.stem == "many" else 3)
    return link_object(data), link_with_lld(data, lld)


def test_memory_is_what_lld_makes(pair: tuple[bytes, bytes]) -> None:
    ours, theirs = (read_elf(data) for data in pair)
    assert (ours.os_abi, ours.abi_version, ours.flags) == (
        theirs.os_abi, theirs.abi_version, theirs.flags,
    )  # fmt: skip

    def memory(file: object) -> list[tuple[object, ...]]:
        return [
            (s.name, s.type, s.address, s.size, s.align, s.data)
            for s in file.sections  # type: ignore[attr-defined]
            if s.flags & SHF_ALLOC
        ]

    assert memory(ours) == memory(theirs)


def test_symbols_are_those_of_lld(pair: tuple[bytes, bytes]) -> None:
    ours, theirs = (read_elf(data) for data in pair)
    names = [[s.name for s in file.sections] for file in (ours, theirs)]

    def symbols(file: object, sections: list[str]) -> list[tuple[object, ...]]:
        return [
            (s.name, s.value, s.size, s.bind, s.type, s.visibility,
             sections[s.section] if s.section < len(sections) else s.section)
            for s in file.symbols  # type: ignore[attr-defined]
        ]  # fmt: skip

    assert symbols(ours, names[0]) == symbols(theirs, names[1])


def test_debug_sections_are_those_of_lld(pair: tuple[bytes, bytes]) -> None:
    ours, theirs = (
        {s.name: s.data for s in read_elf(data).sections if s.name.startswith(".debug")}
        for data in pair
    )
    # lld may sort merged strings; ours keeps them, with the offsets that belong to them.
    for strings in (".debug_str", ".debug_line_str"):
        if strings in theirs:
            assert sorted(ours.pop(strings).split(b"\0")) == sorted(
                theirs.pop(strings).split(b"\0")
            )
    assert ours.keys() == theirs.keys()
    for name in (".debug_abbrev", ".debug_addr", ".debug_frame"):
        assert ours.get(name) == theirs.get(name)


@pytest.mark.parametrize("source", MODULES, ids=lambda p: p.stem)
def test_binary_tools_agree(
    source: Path, compile_object: Compile, lld: str, readelf: Tool, objdump: Tool, tmp_path: Path
) -> None:
    data = compile_object(source.read_text(), "gfx942", 3)
    ours, theirs = tmp_path / "ours.hsaco", tmp_path / "theirs.hsaco"
    ours.write_bytes(link_object(data))
    theirs.write_bytes(link_with_lld(data, lld))
    for options in (["-lW"], ["-nW"], ["-dW"], ["-rW"], ["--dyn-syms", "-W"], ["--hash-table"],
                    ["--gnu-hash-table"]):  # fmt: skip
        ours_text, theirs_text = (
            "\n".join(
                line for line in readelf(path, *options).splitlines()
                if ".shstrtab" not in line and "starting at offset" not in line
            )
            for path in (ours, theirs)
        )  # fmt: skip
        assert ours_text == theirs_text
    ours_text, theirs_text = (
        objdump(path, "-d", "--mcpu=gfx942").partition("Disassembly")[2] for path in (ours, theirs)
    )
    assert "s_endpgm" in ours_text
    assert ours_text == theirs_text


def test_debug_information_survives(compile_object: Compile, objdump: Tool, tmp_path: Path) -> None:
    path = tmp_path / "debug.hsaco"
    path.write_bytes(link_object(compile_object((MODULES[0].parent / "debug.ll").read_text())))
    text = objdump(path, "-d", "-l", "--mcpu=gfx942")
    assert "/d/x.py:4" in text
    assert "/d/x.py:5" in text


def test_undefined_symbols_are_named(compile_object: Compile) -> None:
    data = compile_object(
        """
        declare float @missing(float)
        declare i32 @also_missing()
        define amdgpu_kernel void @k(ptr addrspace(1) %p, float %x) {
          %y = call float @missing(float %x)
          %z = call i32 @also_missing()
          store float %y, ptr addrspace(1) %p
          store i32 %z, ptr addrspace(1) %p
          ret void
        }
        """
    )
    with pytest.raises(TargetError, match="also_missing, missing") as caught:
        link_object(data)
    assert caught.value.code == "FLY-T620"


def test_a_code_object_is_not_linked_again(compile_object: Compile) -> None:
    data = link_object(compile_object("define amdgpu_kernel void @k() { ret void }"))
    with pytest.raises(CompilerBug, match="not relocatable"):
        link_object(data)


def test_an_external_linker_that_fails_says_why(compile_object: Compile, lld: str) -> None:
    data = compile_object("define amdgpu_kernel void @k() { ret void }")
    with pytest.raises(TargetError) as caught:
        link_with_lld(data, "/nonexistent/ld.lld")
    assert caught.value.code == "FLY-T621"
    with pytest.raises(TargetError) as caught:
        link_with_lld(b"not an object", lld)
    assert caught.value.code == "FLY-T622"
