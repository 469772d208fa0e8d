"""The codegen worker: results, failures as exceptions, restarts, threads, process hygiene."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from flydsl.codegen import CodegenRequest, CodegenWorker, WorkerPool, warn_if_long
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import CompilerBug, TargetError

TRIPLE = f"{platform.machine()}-unknown-linux-gnu"
ADD = """
define i32 @add(i32 %a, i32 %b) {
  %c = add i32 %a, %b
  ret i32 %c
}
"""
BAD_ASM = """
define void @bad() {
  call i32 asm sideeffect "", "={no_such_register}"()
  ret void
}
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[CodegenWorker]:
    with CodegenWorker() as running:
        yield running


def test_A14_programs_that_take_minutes_are_warned_of() -> None:
    comments = "; is written out\n" * ((4 << 20) // 17 + 1)
    warn_if_long(CodegenRequest(ADD + comments[:-99], TRIPLE))
    with pytest.warns(FlyDSLWarning, match=r"test_worker.py:\d+ will take minutes.*5 MiB"):
        warn_if_long(CodegenRequest(ADD + comments + comments[: 1 << 20], TRIPLE))


def test_object_is_elf_and_steps_are_timed(worker: CodegenWorker) -> None:
    result = worker.compile(CodegenRequest(ADD, TRIPLE))
    assert result.object[:4] == b"\x7fELF"
    assert result.asm == ""
    assert result.llvm_ir == ""
    assert {"machine", "parse", "optimise", "codegen"} == set(result.timings)
    assert 0 < result.cpu_seconds < 5
    assert 20e6 < result.peak_rss < 1e9


def test_asking_for_assembly_leaves_the_object_unchanged(worker: CodegenWorker) -> None:
    plain = worker.compile(CodegenRequest(ADD, TRIPLE))
    both = worker.compile(CodegenRequest(ADD, TRIPLE, want_asm=True, want_ir=True))
    assert both.object == plain.object
    assert "add:" in both.asm
    assert "target datalayout" in both.llvm_ir
    assert f'target triple = "{TRIPLE}"' in both.llvm_ir


def test_the_middle_end_runs(worker: CodegenWorker) -> None:
    source = """
    define i32 @fold() {
      %p = alloca i32
      store i32 20, ptr %p
      %v = load i32, ptr %p
      %w = add i32 %v, 22
      ret i32 %w
    }"""
    result = worker.compile(CodegenRequest(source, TRIPLE, want_object=False, want_ir=True))
    assert result.object == b""
    assert "ret i32 42" in result.llvm_ir


def test_invalid_ir_is_our_bug_and_the_child_survives(worker: CodegenWorker) -> None:
    before = worker.pids()
    with pytest.raises(CompilerBug, match="expected top-level entity"):
        worker.compile(CodegenRequest("garbage", TRIPLE))
    assert worker.pids() == before


def test_unknown_triple(worker: CodegenWorker) -> None:
    with pytest.raises(TargetError, match="no back end for tpu-none-none") as caught:
        worker.compile(CodegenRequest(ADD, "tpu-none-none"))
    assert caught.value.code == "FLY-T422"


@pytest.mark.parametrize(("cpu", "features"), [("no-such-cpu", ""), ("", "+no-such-feature")])
def test_unknown_processor_or_feature(worker: CodegenWorker, cpu: str, features: str) -> None:
    with pytest.raises(TargetError, match="is not a recognized") as caught:
        worker.compile(CodegenRequest(ADD, TRIPLE, cpu=cpu, features=features))
    assert caught.value.code == "FLY-T423"


def test_back_end_error_ends_the_child_not_us(worker: CodegenWorker) -> None:
    with pytest.raises(TargetError, match="no_such_register"):
        worker.compile(CodegenRequest(BAD_ASM, TRIPLE))
    assert worker.compile(CodegenRequest(ADD, TRIPLE)).object


def test_a_killed_child_is_replaced(worker: CodegenWorker) -> None:
    worker.warm_up()
    (pid,) = worker.pids()
    os.kill(pid, signal.SIGKILL)
    while worker.pids():
        time.sleep(0.001)
    assert worker.compile(CodegenRequest(ADD, TRIPLE)).object
    assert worker.pids() != (pid,)


def test_a_child_killed_while_it_works_is_reported(worker: CodegenWorker) -> None:
    worker.compile(CodegenRequest(ADD, TRIPLE))
    (pid,) = worker.pids()
    os.kill(pid, signal.SIGSTOP)  # the request waits in the pipe until the kill
    killer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(TargetError, match="SIGKILL"):
        worker.compile(CodegenRequest(ADD, TRIPLE))
    killer.join()


def test_interrupted_exchange_does_not_desynchronise(worker: CodegenWorker) -> None:
    worker.compile(CodegenRequest(ADD, TRIPLE))
    (pid,) = worker.pids()
    os.kill(pid, signal.SIGSTOP)

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            worker.compile(CodegenRequest(ADD, TRIPLE))
    finally:
        signal.signal(signal.SIGALRM, previous)
    renamed = ADD.replace("@add", "@another")
    result = worker.compile(CodegenRequest(renamed, TRIPLE, want_asm=True))
    assert "another:" in result.asm


def test_options_run_in_a_child_of_their_own() -> None:
    with CodegenWorker() as worker:
        worker.compile(CodegenRequest(ADD, TRIPLE))
        (plain,) = worker.pids()
        options = (("enable-misched", False),)
        worker.compile(CodegenRequest(ADD, TRIPLE, options=options))
        assert len(worker.pids()) == 2
        worker.compile(CodegenRequest(ADD, TRIPLE, options=(("unroll-count", 2),)))
        assert len(worker.pids()) == 2  # the earlier special child has gone
        assert plain in worker.pids()


def test_threads_share_one_worker(worker: CodegenWorker) -> None:
    found: dict[int, str] = {}

    def one(index: int) -> None:
        source = ADD.replace("@add", f"@f{index}")
        found[index] = worker.compile(CodegenRequest(source, TRIPLE, want_asm=True)).asm

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"f{i}:" in found[i] for i in range(8))


def test_pool_keeps_order_and_returns_errors() -> None:
    requests = [CodegenRequest(ADD.replace("@add", f"@g{i}"), TRIPLE) for i in range(3)]
    requests.insert(1, CodegenRequest(BAD_ASM, TRIPLE))
    with WorkerPool(2) as pool:
        results = list(pool.map(requests))
    assert isinstance(results[1], TargetError)
    objects = [r.object for r in results if not isinstance(r, BaseException)]
    assert [f"g{i}".encode() in data for i, data in enumerate(objects)] == [True] * 3
    with pytest.raises(ValueError, match="at least one"):
        WorkerPool(0)


def test_request_is_validated() -> None:
    with pytest.raises(ValueError, match="triple"):
        CodegenRequest(ADD, "")
    with pytest.raises(ValueError, match="opt_level"):
        CodegenRequest(ADD, TRIPLE, opt_level=4)


_EXIT = """
import os, sys
from flydsl.codegen import shared_worker, warm_up
warm_up()
assert "llvmlite" not in sys.modules
print(shared_worker().pids()[0], flush=True)
if sys.argv[1] == "fork":
    child = os.fork()
    if child == 0:
        assert shared_worker().pids() == ()
        warm_up()
        print(shared_worker().pids()[0], flush=True)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(shared_worker().pids()) == 1
elif sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["return", "fork", "kill"])
def test_children_end_with_the_process(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _EXIT, how],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (-9 if how == "kill" else 0), done.stderr
    assert done.stderr == ""
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == (2 if how == "fork" else 1)
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, "a codegen child outlived its process"
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"worker_main" in file.read()
    except OSError:
        return False
