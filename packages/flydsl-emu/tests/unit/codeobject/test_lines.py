"""The line table reader against `llvm-dwarfdump`, and on damaged tables."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flydsl.errors import TargetError
from flydsl_emu.codeobject import SourceLine, read_code_object, read_elf, read_lines
from flydsl_emu.codeobject.lines import DEBUG_SECTIONS, LineTable

Compile = Callable[[str, str], bytes]

MODULE = """
define amdgpu_kernel void @first(ptr addrspace(1) %p, i32 %n) !dbg !4 {{
  %a = load volatile i32, ptr addrspace(1) %p, !dbg !7
  %b = mul i32 %a, %n, !dbg !8
  %c = icmp sgt i32 %b, 5, !dbg !9
  br i1 %c, label %then, label %end, !dbg !9
then:
  store volatile i32 %b, ptr addrspace(1) %p, !dbg !10
  br label %end, !dbg !11
end:
  store volatile i32 7, ptr addrspace(1) %p, !dbg !12
  ret void, !dbg !13
}}
define amdgpu_kernel void @second(ptr addrspace(1) %p) !dbg !20 {{
  store volatile i32 1, ptr addrspace(1) %p, !dbg !21
  store volatile i32 2, ptr addrspace(1) %p, !dbg !22
  ret void, !dbg !22
}}
!llvm.dbg.cu = !{{!0}}
!llvm.module.flags = !{{!2, !3}}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, isOptimized: true,
                             emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "main.py", directory: "/somewhere")
!2 = !{{i32 2, !"Debug Info Version", i32 3}}
!3 = !{{i32 7, !"Dwarf Version", i32 {version}}}
!4 = distinct !DISubprogram(name: "first", file: !1, line: 3, type: !5, unit: !0,
                            spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{{}}
!7 = !DILocation(line: 10, column: 5, scope: !4)
!8 = !DILocation(line: 700, column: 260, scope: !4)
!9 = !DILocation(line: 11, scope: !4)
!10 = !DILocation(line: 40000, column: 1, scope: !14)
!11 = !DILocation(line: 3, column: 2, scope: !14)
!12 = !DILocation(line: 0, scope: !4)
!13 = !DILocation(line: 12, column: 9, scope: !4)
!14 = distinct !DILexicalBlockFile(scope: !4, file: !15, discriminator: 0)
!15 = !DIFile(filename: "helper.py", directory: "/else where")
!20 = distinct !DISubprogram(name: "second", file: !15, line: 3, type: !5, unit: !0,
                             spFlags: DISPFlagDefinition)
!21 = !DILocation(line: 100000, column: 7, scope: !20)
!22 = !DILocation(line: 1, column: 7, scope: !20)
"""
_ROW = re.compile(r"^(0x[0-9a-f]{16}) +(\d+) +(\d+) +(\d+) +\d+ +\d+ +\d+ *(.*)$", re.MULTILINE)


@pytest.fixture(params=[4, 5])
def code(request: pytest.FixtureRequest, compile_ir: Compile) -> bytes:
    return compile_ir(MODULE.format(version=request.param), "gfx942")


def sections(code: bytes) -> dict[str, bytes]:
    return {s.name: s.data for s in read_elf(code).sections if s.name in DEBUG_SECTIONS}


def test_every_row_equals_what_llvm_prints(code: bytes, tmp_path: Path) -> None:
    dump = shutil.which("llvm-dwarfdump-22")
    if dump is None:
        pytest.skip("llvm-dwarfdump-22 is not installed")
    path = tmp_path / "code.hsaco"
    path.write_bytes(code)
    command = [dump, "--debug-line", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = read_lines(sections(code))
    rows = _ROW.findall(text)
    compared = 0
    for (address, line, column, _, flags), following in zip(rows, [*rows[1:], None], strict=True):
        found = table.find(int(address, 16))
        if "end_sequence" in flags:
            if following is None or int(following[0], 16) != int(address, 16):
                assert found is None
            continue
        if following is not None and following[0] == address:
            continue  # an empty range
        assert found is not None
        compared += 1
        assert found.exact == (line != "0")
        if found.exact:
            assert (found.line, found.column) == (int(line), int(column))
    assert compared >= 8


def test_files_and_lines(code: bytes) -> None:
    loaded = read_code_object(code)
    table = loaded.line_table()
    assert len(table) == len(read_lines(sections(code)))
    first, second = (loaded.kernels[n] for n in ("first", "second"))
    lines = {str(table.find(a)) for a in range(first.address, first.address + len(first.code), 4)}
    assert "/else where/helper.py:40000:1" in lines
    assert any(x.endswith("main.py:700:260") for x in lines)
    (start,) = table.addresses(100000)
    assert second.address <= start < second.address + len(second.code)
    assert table.addresses(100000, "helper.py") == table.addresses(100000, "else where/helper.py")
    assert table.addresses(100000, "elper.py") == ()
    assert table.addresses(100000, "main.py") == ()


def test_merged_code_gets_the_line_before_it() -> None:
    table = LineTable([(16, SourceLine("a.py", 3, 1)), (24, None)])
    assert table.find(12) is None
    assert table.find(24) is None
    assert str(table.find(20)) == "a.py:3:1"


def test_no_debug_information_is_an_empty_table(compile_ir: Compile) -> None:
    plain = "define amdgpu_kernel void @k() { ret void }"
    table = read_code_object(compile_ir(plain, "gfx942")).line_table()
    assert len(table) == 0
    assert table.find(0x1700) is None


@pytest.mark.parametrize("cut", [3, 9, 30, 80, 120])
def test_a_damaged_table_is_an_error_that_says_so(code: bytes, cut: int) -> None:
    found = sections(code)
    found[".debug_line"] = found[".debug_line"][:cut]
    with pytest.raises(TargetError, match="line table") as error:
        read_lines(found)
    assert error.value.code == "FLY-T701"


def test_another_version_is_refused(code: bytes) -> None:
    found = sections(code)
    body = found[".debug_line"]
    found[".debug_line"] = body[:4] + b"\x03\x00" + body[6:]
    with pytest.raises(TargetError, match="version 3"):
        read_lines(found)
