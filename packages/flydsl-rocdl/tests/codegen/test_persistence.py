"""Compiled launchers on disk: what is found again, and what is not."""

from __future__ import annotations

import importlib.util
import linecache
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl import config
from flydsl.caching import disk_cache, fingerprint
from flydsl.compiler import compilation
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import UserError

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx

SCALE = 3

def helper(x):
    return x * SCALE

def other(x):
    return x + 1

TABLE = {"f": other}

def factory(k):
    @flyc.kernel
    def kernel(A: fx.Tensor, n: fx.Int32):
        i = fx.thread_idx.x
        if i < n:
            A[i] = helper(A[i]) + TABLE["f"](A[i]) + k

    @flyc.jit
    def launch(A: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int] = 64):
        kernel(A, n).launch(grid=(1,), block=(block,))

    return launch

launch = factory(1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "1")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FLYDSL_TARGET", "gfx942")
    monkeypatch.setenv("COMPILE_ONLY", "1")
    return tmp_path


@pytest.fixture
def compiles(monkeypatch):
    """Counts compilations."""
    seen = []
    original = compilation.compile_call

    def counted(function, call):
        seen.append(call.target.name)
        return original(function, call)

    monkeypatch.setattr(compilation, "compile_call", counted)
    return seen


def load(folder, source=SOURCE, name="cached_program"):
    """Import `source` as if in a new process: with new functions."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Bytecode of the source before, written in the same second, would be taken for this one's.
    exec(compile(source, str(path), "exec"), module.__dict__)
    linecache.checkcache()
    return module


def run(module, **options):
    module.launch(np.ones(8, np.float32), 8, **options)


def artifacts():
    """What is kept of compiled programs; other entries are for no target."""
    return [entry for entry in disk_cache().entries() if entry.header["target"]]


def test_a_new_process_finds_what_was_compiled(folder, compiles):
    run(load(folder))
    run(load(folder))
    assert len(compiles) == 1
    (entry,) = artifacts()
    assert dict(entry.header) == {"name": "launch", "target": "gfx942"}


def test_a_file_in_the_place_of_the_folder_is_warned_of(folder, compiles, monkeypatch):
    (folder / "cache").write_text("in the way")
    for _ in range(2):
        with pytest.warns(FlyDSLWarning, match="FLYDSL_RUNTIME_CACHE_DIR names .* is a file"):
            run(load(folder))
    assert len(compiles) == 2
    assert (folder / "cache").read_text() == "in the way"
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    run(load(folder))


def changed(old, new):
    assert old in SOURCE
    return SOURCE.replace(old, new)


@pytest.mark.parametrize(
    "source",
    [
        changed("A[i] = helper", "A[i] = 2 * helper"),
        changed("return x * SCALE", "return x * SCALE * 2"),
        changed("SCALE = 3", "SCALE = 4"),
        changed("return x + 1", "return x + 2"),
        changed('{"f": other}', '{"f": helper}'),
        changed("factory(1)", "factory(2)"),
        changed("= 64)", "= 128)"),
        changed("n: fx.Int32", "n: fx.Int64"),
    ],
    ids=["kernel", "helper", "global", "table", "table entry", "closure", "default", "annotation"],
)
def test_any_change_of_the_program_compiles_again(folder, compiles, source):
    run(load(folder))
    run(load(folder, source))
    run(load(folder, source))
    run(load(folder))
    assert len(compiles) == 2


def test_a_function_that_only_the_trace_reaches_is_compared_too(folder, compiles):
    deep = SOURCE.replace("    return x + 1", "    return deeper(x)")
    deep += "\ndef deeper(x):\n    return x + NUMBER\n"
    run(load(folder, deep.replace("NUMBER", "1")))
    run(load(folder, deep.replace("NUMBER", "1")))
    assert len(compiles) == 1
    run(load(folder, deep.replace("NUMBER", "2")))
    assert len(compiles) == 2


def test_monkey_patching_such_a_function_is_noticed_after_a_hit(folder, compiles):
    deep = SOURCE.replace("    return x + 1", "    return deeper(x)")
    deep += "\ndef deeper(x):\n    return x + 1\n"
    run(load(folder, deep))
    module = load(folder, deep)
    run(module)
    assert len(compiles) == 1
    module.deeper = module.helper
    run(module)
    assert len(compiles) == 2


def test_options_target_and_arguments_are_part_of_the_key(folder, compiles):
    def fresh(**settings):
        with config.scope(**settings):
            run(load(folder))
        return len(compiles)

    assert fresh() == 1
    assert fresh(FLYDSL_TARGET="gfx950") == 2
    assert fresh(FLYDSL_COMPILE_OPT_LEVEL="1") == 3
    assert fresh() == 3
    module = load(folder)
    module.launch(np.ones((8, 8), np.float32)[0], 8)
    module.launch(np.ones((8, 8), np.float32)[:, 0], 8)
    run(module, block=128)
    assert len(compiles) == 5
    flyc.compile[{"waves_per_eu": 2}](load(folder).launch, np.ones(8, np.float32), 8)
    assert len(compiles) == 6


def test_another_compiler_does_not_find_it(folder, compiles, monkeypatch):
    run(load(folder))
    monkeypatch.setattr(fingerprint._Process.seen, "fingerprint", lambda *_: "0" * 64)
    run(load(folder))
    assert len(compiles) == 2


def test_a_file_edited_after_its_import_is_not_traced(folder, compiles):
    module = load(folder)
    path = folder / "cached_program.py"
    path.write_text(SOURCE.replace("(A[i]) + k", "(A[i]) + k * 5"))
    linecache.clearcache()
    with pytest.raises(UserError, match="its file changed after import"):
        run(module)
    assert not artifacts()
    path.write_text(SOURCE)
    run(module)
    run(load(folder))
    assert len(compiles) == 2  # the refused one, and one that both have
    # Below what runs, a change is none of it.
    module = load(folder)
    path.write_text(SOURCE + "OTHER = 1")
    linecache.clearcache()
    run(module, block=32)
    assert len(compiles) == 3


def test_a_launcher_without_a_module_is_compiled_in_each_process(folder, compiles):
    path = folder / "nameless.py"
    path.write_text(SOURCE)
    for count in (1, 2):
        space = {}
        exec(compile(SOURCE, str(path), "exec"), space)
        space["launch"](np.ones(8, np.float32), 8)
        assert len(compiles) == count
    assert not artifacts()


def test_damage_is_repaired(folder, compiles):
    run(load(folder))
    (entry,) = artifacts()
    entry.path.write_bytes(entry.path.read_bytes()[:-1])
    run(load(folder))
    run(load(folder))
    assert len(compiles) == 2


def test_programs_with_objects_that_cannot_be_compared_are_not_kept(folder, compiles):
    source = SOURCE.replace("SCALE = 3", "SCALE = object()")
    source = source.replace("x * SCALE", "x * (3 if SCALE else 4)")
    run(load(folder, source))
    run(load(folder, source))
    assert len(compiles) == 2
    assert list(disk_cache().entries()) == []


def test_compile_time_functions_count_by_content(folder, compiles):
    source = SOURCE.replace("block: fx.Constexpr[int] = 64", "f: fx.Constexpr").replace(
        "block=(block,)", "block=(f(),)"
    )

    def go(text):
        module = load(folder, source + text)
        module.launch(np.ones(8, np.float32), 8, module.size)

    go("\ndef size():\n    return 64\n")
    go("\ndef size():\n    return 64\n")
    assert len(compiles) == 1
    go("\ndef size():\n    return 128\n")
    assert len(compiles) == 2


def test_lines_that_a_kernel_reports_are_where_the_code_is(folder, compiles):
    source = SOURCE.replace(
        "        if i < n:", "        fx.device_assert(i < 64, 'i')\n        if i < n:"
    )
    run(load(folder, source))
    run(load(folder, source))
    run(load(folder, source + "\n# a comment below\n"))
    assert len(compiles) == 1
    run(load(folder, "# a comment above\n" + source))
    assert len(compiles) == 2
    # Without output, lines do not matter.
    run(load(folder))
    run(load(folder, "# a comment above\n" + SOURCE))
    assert len(compiles) == 3


def test_disabling_and_dumping_bypass_it(folder, compiles):
    with config.scope(FLYDSL_RUNTIME_ENABLE_CACHE=False):
        run(load(folder))
    assert list(disk_cache().entries()) == []
    with config.scope(FLYDSL_DUMP_IR=True, FLYDSL_DUMP_DIR=folder / "dump"):
        run(load(folder))
        run(load(folder))
    assert len(compiles) == 3


def test_run_only_never_compiles(folder, compiles):
    with config.scope(FLYDSL_RUNTIME_RUN_ONLY=True):
        with pytest.raises(UserError, match="not in the cache") as caught:
            run(load(folder))
        assert "test_persistence.py" in str(caught.value)
    assert compiles == []
    run(load(folder))
    with config.scope(FLYDSL_RUNTIME_RUN_ONLY=True):
        run(load(folder))
        with (
            pytest.raises(UserError, match="forbids compiling"),
            config.scope(FLYDSL_DUMP_IR=True),
        ):
            run(load(folder))
        compiled = flyc.compile(load(folder).launch, np.ones(8, np.float32), 8)
        assert compiled.hsaco
        with pytest.raises(UserError, match="forbids compiling, which the assembly text") as caught:
            compiled.isa  # noqa: B018 - the property raises
        assert "test_persistence.py" in str(caught.value)
    assert len(compiles) == 1
    assert "s_endpgm" in compiled.isa


def test_a_folder_that_cannot_be_written_only_costs_compiling(folder, compiles, monkeypatch):
    def refuse(path, *rest, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    run(load(folder))
    run(load(folder))
    assert len(compiles) == 2
    assert not (folder / "cache").exists()


CHILD = """
import sys, random, hashlib
sys.path.insert(0, {folder!r})
import numpy as np
import flydsl.compiler as flyc
import stress_program
from flydsl.compiler import compilation
original = compilation.compile_call
def counted(function, call):
    print("compiled", flush=True)
    return original(function, call)
compilation.compile_call = counted
first, *order = {programs}
random.Random({seed}).shuffle(order)
for k in (first, *order):
    code = flyc.compile(stress_program.factory(k), np.ones(8, np.float32), 8).hsaco
    print(k, hashlib.sha256(code).hexdigest(), flush=True)
print("mlir" in sys.modules, flush=True)
"""


def child(folder, programs, seed):
    (folder / "stress_program.py").write_text(SOURCE)
    script = CHILD.format(folder=str(folder), programs=list(programs), seed=seed)
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process):
    """Return the lines that a child printed."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.splitlines()


def test_a_hit_in_a_new_process_needs_no_compiler(folder):
    for expected in ("True", "False"):
        assert finished(child(folder, range(3), 0))[-1] == expected


def test_processes_compile_once(folder):
    """What one process compiles, those that wait for it do not (single flight)."""
    running = [child(folder, range(3), seed) for seed in range(4)]
    lines = [finished(process) for process in running]
    assert sum(line.count("compiled") for line in lines) == 3
    assert len({tuple(sorted(set(line[:-1]) - {"compiled"})) for line in lines}) == 1


def check_after_kills(folder, kills, checked):
    """Kill four processes that compile the same 200 programs; then use what they left.

    All begin with program 0, which is stored before the first of them is killed.

    Args:
        folder: Where the cache is.
        kills: How often, each time at a random moment after the first programs are stored.
        checked: How many programs are used afterwards.
    """
    draw = random.Random()
    for _ in range(kills):
        running = [child(folder, range(200), draw.random()) for _ in range(4)]
        for process in running:
            lines = iter(process.stdout.readline, "")
            assert next(line for line in lines if line != "compiled\n")
        time.sleep(draw.random())
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    kept = len(artifacts())
    assert kept > 0
    assert disk_cache().verify()[1:] == (0, 0)
    programs = [0, *sorted(draw.sample(range(1, 200), checked - 1))]
    first, second = (finished(child(folder, programs, 9)) for _ in range(2))
    assert checked - kept <= first.count("compiled") < checked
    assert second.count("compiled") == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        fresh = finished(child(folder, programs, 9))
    assert fresh.count("compiled") == checked
    codes = [[line for line in lines[:-1] if line != "compiled"] for lines in (first, second)]
    assert codes == [[line for line in fresh[:-1] if line != "compiled"]] * 2
    assert disk_cache().verify()[1:] == (0, 0)


def test_killed_writers_leave_nothing_that_is_used(folder):
    check_after_kills(folder, kills=3, checked=60)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_many_killed_writers_leave_nothing_that_is_used(folder):
    check_after_kills(folder, kills=25, checked=200)


def test_threads_compile_once(folder, compiles):
    import threading

    module = load(folder)
    errors = []

    def work():
        try:
            run(module)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(compiles) == 1


def test_an_interrupted_compile_is_made_by_who_waits_for_it(folder, monkeypatch):
    """An exception of any kind in one thread neither blocks the others nor is kept for them."""
    import threading

    original = compilation.compile_call
    started, waiting, outcomes = threading.Event(), threading.Barrier(4), []

    def interrupted(function, call):
        monkeypatch.setattr(compilation, "compile_call", original)
        started.set()
        waiting.wait(30)
        time.sleep(0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr(compilation, "compile_call", interrupted)
    module = load(folder)

    def work():
        if started.is_set():
            waiting.wait(30)
        try:
            run(module)
            outcomes.append("done")
        except KeyboardInterrupt:
            outcomes.append("interrupted")

    threads = [threading.Thread(target=work) for _ in range(4)]
    threads[0].start()
    assert started.wait(60)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done"] * 3 + ["interrupted"]
    assert len(artifacts()) == 1


def test_listeners_hear_of_disk_hits(folder, monkeypatch):
    heard = []
    monkeypatch.setattr(
        "flydsl.compiler.driver._announce", lambda kind, name, _: heard.append((kind, name))
    )
    run(load(folder))
    run(load(folder))
    assert heard == [("disk-hit", "launch")]
