"""Host code: extraction from an object, execution from mapped memory, refusals."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pytest

from flydsl.codegen import CodegenRequest, CodegenWorker, machine_code
from flydsl.codegen.machine_code import MachineCode, MappedCode, host_triple
from flydsl.errors import CompilerBug, TargetError

SUM = """
define internal i32 @helper(i32 %x) noinline {
  %y = mul i32 %x, 3
  ret i32 %y
}
define i32 @first(i32 %x) {
  ret i32 77
}
define i32 @fly_stub(ptr %context, ptr %arguments) {
  %a = load i32, ptr %context
  %b = load i32, ptr %arguments
  %c = call i32 @helper(i32 %b)
  %d = add i32 %a, %c
  ret i32 %d
}
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[CodegenWorker]:
    with CodegenWorker() as running:
        yield running


def compiled(worker: CodegenWorker, source: str) -> bytes:
    return worker.compile(CodegenRequest(source, host_triple(), opt_level=1)).object


def run(mapped: MappedCode, a: int, b: int) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(mapped.address)
    first, second = ctypes.c_int32(a), ctypes.c_int32(b)
    result: int = function(ctypes.addressof(first), ctypes.addressof(second))
    return result


def test_the_named_function_runs_from_mapped_memory(worker: CodegenWorker) -> None:
    code = MachineCode.from_object(compiled(worker, SUM), "fly_stub")
    assert code.entry > 0
    assert run(MappedCode(code), 4, 5) == 19


CONSTANTS = """
define i32 @first(i32 %x) {
  ret i32 77
}
define i32 @fly_stub(ptr %context, ptr %arguments) {
  %a = load float, ptr %context
  %b = load double, ptr %arguments
  %negative = fneg float %a
  %wide = fpext float %negative to double
  %product = fmul double %b, 0x3FB99999A0000000
  %sum = fadd double %product, %wide
  %more = fadd double %sum, 0x40FE240C9FBE76C9
  %near = fmul double %more, 1.000000e+03
  %result = fptosi double %near to i32
  ret i32 %result
}
"""


def test_constants_are_found_behind_the_code(worker: CodegenWorker) -> None:
    for level in (0, 1, 2):
        request = CodegenRequest(CONSTANTS, host_triple(), opt_level=level)
        code = MachineCode.from_object(worker.compile(request).object, "fly_stub")
        stub = MappedCode(code)
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(stub.address)
        for a, b in ((1.5, 2.25), (-3.0, 1e3), (0.125, -7.0)):
            first, second = ctypes.c_float(a), ctypes.c_double(b)
            found = function(ctypes.addressof(first), ctypes.addressof(second))
            tenth, large = (float.fromhex(x) for x in ("0x1.99999ap-4", "0x1.e240c9fbe76c9p+16"))
            assert found == int((b * tenth - a + large) * 1000)


def _constant_of(code: bytes, page: int, low: int, scale: int) -> int:
    """Return the address that an ADRP and the instruction after it name, in code at 0."""
    upper, lower = (int.from_bytes(code[at : at + 4], "little") for at in (page, low))
    distance = (upper >> 29 & 3) | (upper >> 5 & 0x7FFFF) << 2
    distance -= (distance & 1 << 20) << 1
    return ((page >> 12) + distance << 12) + ((lower >> 10 & 0xFFF) << scale)


def test_constants_are_found_on_the_other_processor_too(worker: CodegenWorker) -> None:
    filler = "".join(f"  store volatile i32 {i * 70001}, ptr %p\n" for i in range(600))
    source = f"""
    define double @fly_stub(ptr %p) {{
    {filler}
      %x = load double, ptr %p
      %y = fmul double %x, 0x40FE240C9FBE76C9
      ret double %y
    }}
    """
    request = CodegenRequest(source, "aarch64-unknown-linux-gnu", opt_level=1, vectorize=False)
    data = worker.compile(request).object
    code = MachineCode.from_object(data, "fly_stub").data
    place = code.index(struct.pack("<Q", 0x40FE240C9FBE76C9))
    assert place > 4096
    # ADRP Xn, page; then LDR Dm, [Xn, offset].
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, place - 3, 4)]
    pages = [4 * i for i, word in enumerate(words) if word & 0x9F000000 == 0x90000000]
    loads = [4 * i for i, word in enumerate(words) if word & 0xFFC00000 == 0xFD400000]
    found = {_constant_of(code, page, load, 3) for page in pages for load in loads}
    assert place in found


def test_it_falls_back_to_a_file_where_anonymous_memory_is_refused(
    worker: CodegenWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = MachineCode.from_object(compiled(worker, SUM), "fly_stub")
    monkeypatch.setattr(machine_code, "_anonymous", lambda _: None)
    assert run(MappedCode(code), 1, 1) == 4
    monkeypatch.setattr(machine_code, "_file_backed", lambda _: None)
    with pytest.raises(TargetError, match="refuses executable memory"):
        MappedCode(code)


def test_code_of_another_processor_is_not_mapped(worker: CodegenWorker) -> None:
    code = MachineCode.from_object(compiled(worker, SUM), "fly_stub")
    with pytest.raises(TargetError, match="another processor"):
        MappedCode(MachineCode(code.data, code.entry, "riscv64"))


CALL = """
declare i32 @getpid()
define i32 @fly_stub() {
  %x = call i32 @getpid()
  %y = add i32 %x, 1
  ret i32 %y
}
"""
DATA = "@g = global i32 7\ndefine i32 @fly_stub() {\n  ret i32 1\n}"
OTHER = "define i32 @other() {\n  ret i32 1\n}"


@pytest.mark.parametrize(
    ("source", "reason"),
    [(CALL, "relocations"), (DATA, r"section \.data"), (OTHER, "does not define fly_stub")],
    ids=["call", "data", "missing"],
)
def test_code_that_is_not_self_contained_is_refused(
    worker: CodegenWorker, source: str, reason: str
) -> None:
    with pytest.raises(CompilerBug, match=reason):
        MachineCode.from_object(compiled(worker, source), "fly_stub")


def test_other_bytes_are_refused() -> None:
    with pytest.raises(CompilerBug, match="no little-endian ELF64"):
        MachineCode.from_object(b"MZ" + bytes(100), "fly_stub")
