"""The driver from call to launch, on the toy target: caching, errors, dumps, events."""

from __future__ import annotations

import gc
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.compiler.driver import _without_cyclic_gc, cache_of
from flydsl.errors import TargetError, UserError, UserTypeError, UserValueError
from flydsl.plugins import hookimpl, plugin_manager
from flydsl.testing import toy_target

SCALE = 1.0


@flyc.kernel
def add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


def make_add():
    """Return a launcher with a cache of its own."""

    @flyc.jit
    def add(
        a: fx.Tensor,
        b: fx.Tensor,
        c: fx.Tensor,
        n: fx.Int32,
        block: fx.Constexpr[int] = 64,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - as users write it
    ):
        add_kernel(a, b, c, n, block).launch(
            grid=((n + block - 1) // block,), block=(block, 1, 1), stream=stream
        )

    return add


def vectors(n, dtype=np.float32):
    a = np.arange(n).astype(dtype)
    return a, (a * 2 + 1).astype(dtype), np.zeros(n, dtype)


def check(add, n, *rest, dtype=np.float32):
    a, b, c = vectors(n, dtype)
    assert add(a, b, c, n, *rest) is None
    np.testing.assert_array_equal(c, a + b)


@pytest.fixture(autouse=True)
def toy():
    with toy_target() as target:
        yield target


def launches():
    return plugin_manager().cache("runtimes")["toy"].launches


def test_a_launcher_computes_and_is_compiled_once():
    add = make_add()
    for n in (1, 64, 1000, 1000, 77):
        check(add, n)
    cache = cache_of(add)
    assert cache.misses == 1
    assert cache.hits == 0  # the generated front found the closure; nobody asked the cache
    assert launches() == 5


def test_specialisations_are_compiled_apart():
    add = make_add()
    check(add, 100)
    check(add, 100, 32)
    check(add, 100, dtype=np.int32)
    check(add, 100, 32, dtype=np.int32)
    check(add, 50)
    assert cache_of(add).misses == 4


def test_keywords_defaults_and_streams():
    add = make_add()
    a, b, c = vectors(10)
    add(n=10, c=c, b=b, a=a, stream=None)
    np.testing.assert_array_equal(c, a + b)
    add(a, b, c, 10, stream=fx.Stream(5))
    assert cache_of(add).misses == 1


def test_a_zero_grid_computed_at_run_time_is_a_no_op():
    add = make_add()
    a, b, c = vectors(4)
    add(a, b, c, 0)
    assert not c.any()
    check(add, 4)


def test_misaligned_tensors_are_another_specialisation():
    add = make_add()
    store = np.zeros(68, np.float32)
    start = -store.ctypes.data % 16 // 4
    for shift in (0, 1, 2, 0, 1):
        c = store[start + shift : start + shift + 60]
        a, b, _ = vectors(60)
        add(a, b, c, 60)
        np.testing.assert_array_equal(c, a + b)
    assert cache_of(add).misses == 3


@flyc.kernel
def scale_kernel(a: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        a[i] = a[i] * SCALE


@flyc.jit
def scale(a: fx.Tensor, n: fx.Int32):
    scale_kernel(a, n).launch(grid=(1,), block=(64, 1, 1))


def test_a_changed_global_is_noticed(monkeypatch):
    for factor, misses in ((3.0, 1), (3.0, 1), (5.0, 2)):
        monkeypatch.setitem(globals(), "SCALE", factor)
        a = np.ones(8, np.float32)
        scale(a, 8)
        np.testing.assert_array_equal(a, factor)
        assert cache_of(scale).misses == misses


def test_a_replaced_kernel_is_noticed(monkeypatch):
    add = make_add()
    check(add, 8)

    @flyc.kernel
    def subtract(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
        i = fx.block_idx.x * block + fx.thread_idx.x
        if i < n:
            c[i] = a[i] - b[i]

    monkeypatch.setitem(globals(), "add_kernel", subtract)
    a, b, c = vectors(8)
    add(a, b, c, 8)
    np.testing.assert_array_equal(c, a - b)


def test_threads_compile_once():
    add = make_add()
    failures = []

    def one():
        try:
            with toy_target_settings():
                check(add, 500)
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert cache_of(add).misses == 1


def toy_target_settings():
    """Overrides of settings do not reach new threads, so each names the target again."""
    return config.scope(FLYDSL_TARGET="toy")


def test_only_compiling_launches_nothing():
    add = make_add()
    a, b, c = vectors(16)
    with config.scope(COMPILE_ONLY=True):
        assert add(a, b, c, 16) is None
        compiled = flyc.compile(make_add(), a, b, c, 16)
        with pytest.raises(UserError, match="was only compiled"):
            compiled(a, b, c, 16)
    assert cache_of(add).misses == 1
    assert "toy" not in plugin_manager().cache("runtimes")
    assert not c.any()
    check(add, 16)
    assert cache_of(add).misses == 1


def test_no_target_and_no_device_when_only_compiling():
    a, b, c = vectors(4)
    with (
        config.scope(COMPILE_ONLY=True, FLYDSL_TARGET=None),
        pytest.raises(TargetError, match="no target is named") as caught,
    ):
        make_add()(a, b, c, 4)
    assert "FLYDSL_TARGET" in str(caught.value)


def test_unknown_target():
    a, b, c = vectors(4)
    with (
        config.scope(FLYDSL_TARGET="toi"),
        pytest.raises(TargetError, match="no installed plugin knows") as caught,
    ):
        make_add()(a, b, c, 4)
    assert "did you mean toy" in str(caught.value)
    assert caught.value.location.file == __file__


def test_wrong_arguments_are_reported_where_the_call_is():
    add = make_add()
    a, b, c = vectors(4)
    check(add, 4)  # errors after a compile take the same way as before one
    for arguments, keywords, error, text in (
        ((a, b, c), {}, UserTypeError, "'n'"),
        ((a, b, c, 4, 64, None, 1), {}, UserTypeError, "6 positional"),
        ((a, b, c, 4), {"blok": 3}, UserTypeError, "'blok'"),
        ((a, b, c.astype(np.complex64), 4), {}, UserTypeError, "'c'.*complex64"),
        ((a, b, [1.0], 4), {}, UserTypeError, "'c'.*list"),
        ((a, b, c, 4.5), {}, UserTypeError, "'n'.*float"),
        ((a, b, c, 2**40), {}, UserValueError, "'n'.*outside the range"),
        ((a, b, c, 4, "64"), {}, UserTypeError, "'block'"),
        ((a, b, c, 4), {"stream": "s"}, UserTypeError, "'stream'"),
    ):
        with pytest.raises(error, match=text) as caught:
            add(*arguments, **keywords)
        assert caught.value.location.file == __file__
        assert "add(*arguments, **keywords)" in caught.value.location.snippet()
    assert cache_of(add).misses == 1


def test_a_typo_in_a_kernel_names_its_line():
    @flyc.kernel
    def wrong(a: fx.Tensor):
        a[fx.thread_idx.x] = fx.sqqrt(a[0])

    @flyc.jit
    def launch(a: fx.Tensor):
        wrong(a).launch(grid=(1,), block=(1, 1, 1))

    with pytest.raises(AttributeError, match="sqqrt") as caught:
        launch(np.zeros(4, np.float32))
    assert isinstance(caught.value, UserError)
    assert caught.value.location.file == __file__
    assert "sqqrt" in caught.value.location.snippet()


@pytest.mark.parametrize(
    ("grid", "block", "error", "text"),
    [
        ((0,), (1, 1, 1), UserError, "grid"),
        ((1,), (2048, 1, 1), TargetError, "threads per block"),
    ],
)
def test_impossible_geometry(grid, block, error, text):
    @flyc.kernel
    def nothing(a: fx.Tensor):
        a[0] = a[0]

    @flyc.jit
    def launch(a: fx.Tensor):
        nothing(a).launch(grid=grid, block=block)

    with pytest.raises(error, match=text) as caught:
        launch(np.zeros(4, np.float32))
    assert caught.value.location.file == __file__


def test_errors_do_not_stick():
    add = make_add()
    a, b, c = vectors(4)
    with pytest.raises(UserError):
        add(a, b, c, "4")
    check(add, 4)
    assert gc.isenabled()


def test_a_launch_does_not_make_python_collect_what_is_old():
    seen, made = [], []

    def note(phase, info):
        if phase == "start":
            seen.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(500, 1, 1)
        for _ in range(3):
            # From here on a collection of all that is young would take what is older too.
            for generation in (0, 0, 1, 1):
                gc.collect(generation)
            seen.clear()
            with _without_cyclic_gc():
                made.append([[] for _ in range(2000)])
            made.append([])
            assert seen == [0]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)


def test_dumps_are_numbered_stages(tmp_path):
    add = make_add()
    with config.scope(FLYDSL_DUMP_IR=True, FLYDSL_DUMP_DIR=tmp_path):
        check(add, 100)
        check(add, 100)
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("add-")
    names = sorted(path.name for path in folder.iterdir())
    assert [name[:3] for name in names] == [f"{i:02}_" for i in range(len(names))]
    stages = [name[3:] for name in names]
    assert stages[:2] == ["traced.mlir", "fly-rewrite-func-signature.mlir"]
    for expected in ("device.ll", "device.s", "kernels.toy-object", "host.ll", "host.s"):
        assert expected in stages
    assert "fly.memref" in (folder / names[0]).read_text()
    assert "test_driver.py" in (folder / names[0]).read_text()


def test_every_traced_operation_is_located_in_the_user_s_file(tmp_path):
    """Indexing a tensor passes through the standard library, which is nobody's source line."""
    with config.scope(FLYDSL_DUMP_IR=True, FLYDSL_DUMP_DIR=tmp_path):
        check(make_add(), 100)
    (folder,) = tmp_path.iterdir()
    text = next(folder.glob("00_*")).read_text()
    files = {Path(name).name for name in re.findall(r'loc\("([^"]+)":\d+', text)}
    assert files == {"test_driver.py"}


def test_nothing_is_dumped_unasked(tmp_path):
    with config.scope(FLYDSL_DUMP_DIR=tmp_path):
        check(make_add(), 3)
    assert list(tmp_path.iterdir()) == []


def test_listeners_see_where_the_time_goes():
    class Listener:
        def __init__(self):
            self.events = []

        @hookimpl
        def flydsl_compile_event(self, event):
            self.events.append(event)

    listener = Listener()
    with toy_target(listener):
        add = make_add()
        check(add, 3)
        a, b, c = vectors(3)
        flyc.compile(add, a, b, c, 3)
    hit = listener.events.pop()
    assert (hit.kind, hit.name) == ("cache-hit", "add")
    kinds = [event.kind for event in listener.events]
    assert kinds[0] == "cache-miss"
    assert kinds[-1] == "done"
    for kind in ("trace", "pass", "translate", "optimise", "codegen", "link", "host"):
        assert kind in kinds
    done = listener.events[-1]
    parts = sum(event.wall_seconds for event in listener.events[1:-1])
    assert 0.5 * done.wall_seconds < parts <= done.wall_seconds
    assert all(event.target == "toy" for event in listener.events)


def test_verification_runs_between_passes():
    with config.scope(FLYDSL_VERIFY=True):
        check(make_add(), 3)


def test_compiled_function():
    add = make_add()
    a, b, c = vectors(32)
    compiled = flyc.compile(add, a, b, c, 32, 16)
    assert not c.any()  # host tensors are placeholders
    assert [info.name for info in compiled.kernels] == ["add_kernel_0"]
    assert compiled.code.format == "toy-object"
    compiled(a, b, c, 32, None, None)
    np.testing.assert_array_equal(c, a + b)
    x, y, z = vectors(100)
    compiled(x, y, z, 100, 16, 7)
    np.testing.assert_array_equal(z, x + y)
    assert cache_of(add).misses == 1


def test_compiled_function_refuses_other_kinds_of_arguments():
    a, b, c = vectors(32)
    compiled = flyc.compile(make_add(), a, b, c, 32, 16)
    with pytest.raises(UserTypeError, match="compiled for arguments of other kinds"):
        compiled(a, b, c.astype(np.float64), 32, 16, None)
    with pytest.raises(UserTypeError, match="missing"):
        compiled(a, b, c)


def test_compiled_function_refuses_other_compile_time_values():
    a, b, c = vectors(32)
    compiled = flyc.compile(make_add(), a, b, c, 32, 16)
    for _ in range(2):
        with pytest.raises(UserValueError, match="compiled for another 'block'") as caught:
            compiled(a, b, c, 32, 32, None)
        assert (caught.value.code, caught.value.allowed) == ("FLY-U424", "16")
        assert not c.any()
    for _ in range(2):
        compiled(a, b, c, 32, 16, None)
        compiled(a, b, c, 32, None, None)
    np.testing.assert_array_equal(c, a + b)


def test_compile_hints():
    add = make_add()
    a, b, c = vectors(8)
    assert flyc.compile[{"fast_fp_math": True}](add) is add
    assert cache_of(add).hints == {"fast_fp_math": True}
    check(add, 8)
    hinted = make_add()
    compiled = flyc.compile[{"waves_per_eu": 2}](hinted, a, b, c, 8)
    compiled(a, b, c, 8, 64, None)
    np.testing.assert_array_equal(c, a + b)
    assert cache_of(hinted).hints == {}
    check(hinted, 8)
    assert cache_of(hinted).misses == 2
    with pytest.raises(UserValueError, match="unknown compile hint"):
        flyc.compile[{"wave_per_eu": 2}]
    with pytest.raises(UserTypeError, match="hints are a mapping"):
        flyc.compile[3]
    with pytest.raises(UserTypeError, match="decorated with @flyc"):
        flyc.compile(len, a)


class Holder:
    """Launchers can be methods."""

    def __init__(self, block):
        self.block = block

    @flyc.jit
    def add(self, a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
        add_kernel(a, b, c, n, self.block).launch(
            grid=((n + self.block - 1) // self.block,), block=(self.block, 1, 1)
        )


def test_methods_are_compiled_per_object():
    first, second = Holder(16), Holder(32)
    for holder in (first, second, first):
        check(holder.add, 50)
    assert cache_of(first.add).misses == 1
    assert first.add is first.add
