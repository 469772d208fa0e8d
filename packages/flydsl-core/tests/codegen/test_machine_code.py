"""Host code: extraction from an object, execution from mapped memory, refusals."""

from __future__ import annotations

import ctypes
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
