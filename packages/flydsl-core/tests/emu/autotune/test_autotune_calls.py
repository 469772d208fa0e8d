"""Tuned launchers called with changing arguments, and candidates that misbehave."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune
from flydsl.autotune.comparing import differences
from flydsl.autotune.memory import Snapshot
from flydsl.autotune.workers import alone_on
from flydsl.cli import main
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import UserError, UserTypeError

torch = pytest.importorskip("torch")


@flyc.kernel
def scale_kernel(
    X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, triple: fx.Constexpr[bool], block: fx.Constexpr[int]
):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        Y[i] = X[i] * (3.0 if triple else 2.0)


def scaling(configs=(64, 128), **options):
    @autotune([Config(block=block) for block in configs], **options)
    @flyc.jit
    def scale(
        X: fx.Tensor,
        Y: fx.Tensor,
        n: fx.Int32,
        triple: fx.Constexpr[bool],
        block: fx.Constexpr[int],
    ):
        grid = ((n + block - 1) // block,)
        scale_kernel(X, Y, n, triple, block).launch(grid=grid, block=(block,))

    return scale


@pytest.mark.parametrize("key", [["n"], None])
def test_calls_may_change_all_that_kernels_are_compiled_for(key):
    scale = scaling(key=key)
    x = np.arange(300, dtype=np.float32)
    store = np.arange(701, dtype=np.float32)
    frozen = x.copy()
    frozen.setflags(write=False)
    inputs = [x, store[1:301], x[::-1], store[:600:2], frozen, np.broadcast_to(x[5:6], 300)]
    inputs += [torch.from_numpy(store)[1:301], torch.from_numpy(x), torch.ones(1).expand(300)]
    for _ in range(2):
        for triple in (False, True):
            for given in inputs:
                y = np.zeros(300, np.float32)
                scale(given, y, 300, triple)
                np.testing.assert_array_equal(y, np.asarray(given) * (3 if triple else 2))
    for n in (300, 200):
        y = np.zeros(300, np.float32)
        scale(flyc.from_dlpack(x[:n]), flyc.from_dlpack(y[:n]), n, True)
        np.testing.assert_array_equal(y, np.where(np.arange(300) < n, 3 * x, 0))


def test_a_search_leaves_tensors_of_pytorch_as_autograd_knows_them():
    x = torch.ones(300, requires_grad=True)
    shared = torch.as_strided(torch.arange(20.0), (10, 8), (1, 1))
    with torch.inference_mode():
        inference = torch.ones(300)
    squared = x * 1.0
    loss = (squared * squared).sum()
    for given in (squared.detach(), inference):
        y = torch.zeros(300)
        scaling()(given, y, 300, False)
        assert bool((y == 2).all())
    loss.backward()  # squared has the version that was saved
    assert bool((x.grad == 2).all())
    before = Snapshot({"s": shared})
    shared[0, 0] = 7.0
    before.restore()
    assert torch.equal(torch.as_strided(shared, (17,), (1,)), torch.arange(17.0))


def test_arguments_in_wrappers_are_restored_and_compared():
    x, y = np.ones(64, np.float32), np.full(64, 5, np.float32)
    scale = scaling()
    assert scale.resolve_config(x, flyc.from_dlpack(y), 64, False)
    assert (y == 5).all()
    scale(x, flyc.from_dlpack(y), 64, False)
    assert (y == 2).all()


@flyc.kernel
def candidate_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, mode: fx.Constexpr[str]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if fx.const_expr(mode == "assertion"):
        raise AssertionError("the tile is too large")
    if fx.const_expr(mode == "outside"):
        Y[i + 1_000_000] = X[i]
    done = {"right": 0, "also right": 0, "tail": 1, "input": 0}.get(mode)
    if fx.const_expr(done is not None):
        last = n - done
        if i < last:
            Y[i] = X[i] * 2.0
            if fx.const_expr(mode == "input"):
                X[i] = Y[i]


def trying(*modes, hooks=None, **options):
    configs = [Config(mode=mode, pre_hook=(hooks or {}).get(mode)) for mode in modes]

    @autotune(configs, **options)
    @flyc.jit
    def tried(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, mode: fx.Constexpr[str]):
        candidate_kernel(X, Y, n, mode).launch(grid=((n + 63) // 64,), block=(64,))

    return tried


def reasons(tried):
    (result,) = tried.results.values()
    return [trial.rejected for trial in result.trials]


def test_a_candidate_may_raise_anything():
    def fails(_):
        raise KeyError("hook")

    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    modes = ("assertion", "outside", "right", "also right")
    tried = trying(*modes, hooks={"also right": fails})
    tried(x, y, 100)
    np.testing.assert_array_equal(y, 2 * x)
    found = reasons(tried)
    assert found[0] == "does not compile: AssertionError: the tile is too large"
    assert found[1].startswith("fails: read of 4 bytes")
    assert found[2:] == ["", "fails: KeyError: 'hook'"]
    with pytest.raises(UserError, match=r"none of the configurations runs.*FLY-U472") as caught:
        trying("assertion")(x, y, 100)
    assert isinstance(caught.value.__cause__, AssertionError)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_results_that_are_there_already_do_not_help_a_wrong_candidate(kind):
    x = np.arange(100, dtype=np.float32)
    y = 2 * x
    if kind != "numpy":
        x, y = torch.from_numpy(x), torch.from_numpy(y)
    tried = trying("right", "nothing", "tail", "input", "also right")
    with pytest.warns(FlyDSLWarning, match="other results than the first one"):
        tried(x, y, 100)
    found = reasons(tried)
    assert found[1].startswith("wrong results: Y differs")
    assert found[2].startswith("wrong results: Y differs in 1 elements")
    assert found[3].startswith("wrong results: X differs")
    assert (found[0], found[4]) == ("", "")
    np.testing.assert_array_equal(np.asarray(y), 2 * np.asarray(x))


def test_an_outlier_does_not_hide_errors_elsewhere():
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    x[0] = 1e7
    tried = trying("right", "tail")
    with pytest.warns(FlyDSLWarning, match="differs in 1 elements, by up to"):
        tried(x, y, 100)
    # Rows and columns of other sizes may differ by what sums of their terms lose.
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((64, 512)), rng.standard_normal((512, 48))
    a[7] *= 1e6
    b[:, 3] *= 1e5
    exact = (a @ b).astype(np.float32)
    other = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float32)
    assert differences({"C": other}, {"C": exact}, None) == ""
    for at in ((7, 3), (7, 4), (8, 3), (8, 4)):
        wrong = other.copy()
        wrong[at] *= 0.9
        assert "differs in 1 elements" in differences({"C": wrong}, {"C": exact}, None), at
    for value in (np.nan, np.inf):
        wrong = other.copy()
        wrong[1, 1] = value
        assert differences({"C": wrong}, {"C": exact}, None)
        assert differences({"C": wrong}, {"C": wrong.copy()}, None) == ""


def test_a_reference_decides_instead_of_the_first_candidate():
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    tried = trying("tail", "right")

    @tried.reference
    def reference(arguments):
        arguments["Y"][:] = 2 * arguments["X"]

    with pytest.warns(FlyDSLWarning, match="other results than the reference"):
        tried(x, y, 100)
    np.testing.assert_array_equal(y, 2 * x)
    assert reasons(tried)[1] == ""


def test_kept_results_hold_for_their_reference():
    class Adding:
        def __call__(self, arguments):
            arguments["Y"][:] = 2 * arguments["X"]

    def multiplying(factor):
        def reference(arguments):
            arguments["Y"][:] = factor * arguments["X"]

        return reference

    def edited(arguments):
        arguments["Y"][:] = arguments["X"] + arguments["X"]

    def searches(reference, modes=("tail", "right")):
        runs = []
        tried = trying(*modes, do_bench=lambda run: (run(), runs.append(1), float(len(runs)))[2])
        if reference is not None:
            assert tried.reference(reference) is reference
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlyDSLWarning)
            return tried.resolve_config(x, y, 100).values["mode"], len(runs)

    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    assert searches(None) == ("tail", 1)
    assert searches(None) == ("tail", 0)
    assert searches(multiplying(2)) == ("right", 1)
    assert searches(multiplying(2)) == ("right", 0)
    for _ in range(2):
        with pytest.raises(UserError, match=r"none of the configurations runs.*FLY-U472"):
            searches(multiplying(3))
    assert searches(edited) == ("right", 1)
    assert searches(edited) == ("right", 0)
    # What another process cannot compare is kept for this one only, and takes nothing else's place.
    for _ in range(2):
        assert searches(Adding()) == ("right", 1)
    assert searches(edited) == ("right", 0)


def test_results_of_programs_that_cannot_be_compared_are_not_kept():
    runs = []
    factors = {object(): 2.0}  # of a kind that another process cannot compare

    @flyc.kernel
    def kernel(X: fx.Tensor, Y: fx.Tensor, block: fx.Constexpr[int]):
        i = fx.block_idx.x * block + fx.thread_idx.x
        Y[i] = X[i] * next(iter(factors.values()))

    def searched():
        @autotune([Config(block=64)], do_bench=lambda run: (run(), runs.append(1), 1.0)[2])
        @flyc.jit
        def scale(X: fx.Tensor, Y: fx.Tensor, block: fx.Constexpr[int]):
            kernel(X, Y, block).launch(grid=1, block=block)

        assert not scale.launcher.dependencies().portable
        x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
        assert scale.resolve_config(x, y).values["block"] == 64
        assert "program" not in next(iter(scale.results.values())).provenance
        return len(runs)

    assert (searched(), searched()) == (1, 2)


def test_a_reference_given_later_counts_for_calls_seen_already():
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    tried = trying("tail", "right", do_bench=lambda run: (run(), 1.0)[1])
    with pytest.warns(FlyDSLWarning, match="other results than the first one"):
        tried(x, y, 100)
    assert y[99] == 0

    @tried.reference
    def reference(arguments):
        arguments["Y"][:] = 2 * arguments["X"]

    with pytest.warns(FlyDSLWarning, match="other results than the reference"):
        tried(x, y, 100)
    np.testing.assert_array_equal(y, 2 * x)


def test_a_reference_is_called_with_one_mapping():
    tried = trying("right")
    for wrong in (lambda _x, _n: None, lambda: None, lambda *, _x: None, "reference", None):
        with pytest.raises(UserTypeError, match="called with one argument: a mapping") as caught:
            tried.reference(wrong)
        assert caught.value.code == "FLY-U478"
        assert "def reference(arguments)" in caught.value.hint
        assert not tried.has_reference
    for right in (lambda _, _more=1: None, lambda *_: None, dict):
        assert tried.reference(right) is right


def test_hooks_run_for_results_from_disk_too():
    def add(values):
        seen.append(values["n"])

    seen = []
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    trying("right", hooks={"right": add})(x, y, 100)
    del seen[:]
    again = trying("right", hooks={"right": add})
    again(x, y, 100)
    assert seen == [100]  # found, and run once


def test_results_of_another_program_are_not_taken():
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    costs = iter([2.0, 1.0])
    trying("right", "also right", do_bench=lambda _: next(costs))(x, y, 100)

    def other():
        @autotune([Config(mode="right"), Config(mode="also right")], do_bench=lambda _: 1)
        @flyc.jit
        def tried(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, mode: fx.Constexpr[str]):
            candidate_kernel(X, Y, n, mode).launch(grid=((n + 127) // 64,), block=(64,))

        return tried

    function = other()
    function.launcher.function.__qualname__ = "trying.<locals>.tried"
    assert function.resolve_config(x, y, 100) == Config(mode="right")


def test_measurements_are_numbers():
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    tried = trying("right", do_bench=lambda _: 2)
    tried(x, y, 100)
    (result,) = tried.results.values()
    assert result.trials[0].value == 2.0
    for wrong in (None, float("nan"), (float("inf"), "ms"), "fast"):
        with pytest.raises(UserError, match="FLY-U472") as caught:
            trying("also right", do_bench=lambda _, wrong=wrong: wrong)(x, y, 100)
        assert caught.value.__cause__.code == "FLY-U477"
    with pytest.raises(UserError, match="FLY-U470"):
        trying("right", default=lambda _: "right")(x, y[:50], 50)


@pytest.mark.parametrize("prune", [{"top": 1}, {"top_k": 0}, {"top_k": 0.5}])
def test_ways_of_pruning_are_checked_at_the_decoration(prune):
    with pytest.raises(UserError, match="FLY-U476"):
        trying("right", prune_configs_by=prune)


def test_configurations_differ_where_their_values_do():
    assert Config(a=1) != Config(a=True)
    assert Config(a=1) != Config(a=1.0)
    assert len({Config(a=1), Config(a=True), Config(a=1.0), Config(a=1)}) == 3


def test_threads_that_need_the_same_search_once():
    measured = []

    def bench(run):
        run()
        measured.append(threading.get_ident())
        return float(len(measured))

    scale = scaling(do_bench=bench)
    outputs = [np.zeros(300, np.float32) for _ in range(4)]
    x = np.arange(300, dtype=np.float32)
    threads = [threading.Thread(target=scale, args=(x, y, 300, False)) for y in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(measured) == 2
    for y in outputs:
        np.testing.assert_array_equal(y, 2 * x)


PROGRAM = """
import os
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune

@flyc.kernel
def kernel(A: fx.Tensor, O: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        O[i] = O[i] + A[i]

def zero(values):
    values["O"][:] = 0

def leave(values):
    os._exit(3)

@autotune([Config(block=64, pre_hook=leave), Config(block=128), Config(block=256, pre_hook=zero)])
@flyc.jit
def copy(A: fx.Tensor, O: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    kernel(A, O, n, block).launch(grid=((n + block - 1) // block,), block=(block,))

@copy.reference
def reference(arguments):
    arguments["O"][:] = arguments["A"]

def problems():
    return [(np.arange(300, dtype=np.float32), np.ones(300, np.float32), 300)]
"""


def test_the_command_survives_candidates_that_end_their_process(folder, monkeypatch, capsys):
    (folder / "leaving_program.py").write_text(PROGRAM)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(folder)
    command = ["tune", "leaving_program:copy", "--problems", "leaving_program:problems"]
    assert main([*command, "--workers", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "block=64): fails: ends the process" in lines[1]
    assert "block=128): wrong results: O differs in 300 elements" in lines[2]
    assert lines[4] == "  best: Config(block=256)"


def test_the_command_leaves_out_candidates_that_hang(folder, monkeypatch, capsys):
    # It hangs without letting go of the interpreter, as a launch may.
    hang = "    import ctypes\n    ctypes.PyDLL(None).pause()"
    (folder / "hanging_program.py").write_text(PROGRAM.replace("    os._exit(3)", hang))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(folder)
    command = ["tune", "hanging_program:copy", "--problems", "hanging_program:problems"]
    assert main([*command, "--workers", "2", "--timeout", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "block=64): fails: takes longer than 10 s" in lines[1]
    assert "block=128): wrong results: O differs in 300 elements" in lines[2]
    assert lines[4] == "  best: Config(block=256)"
    for wrong in ("-1", "nan", "soon"):
        with pytest.raises(SystemExit):
            main([*command, f"--timeout={wrong}"])
        assert "--timeout" in capsys.readouterr().err


FACTOR = 2.0


@flyc.kernel
def factor_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        Y[i] = X[i] * FACTOR


@pytest.mark.parametrize("hints", [{}, {"waves_per_eu": 2}])
def test_repeated_calls_see_what_has_changed(hints, monkeypatch):
    @autotune([Config(**hints)])
    @flyc.jit
    def multiply(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
        factor_kernel(X, Y, n).launch(grid=((n + 63) // 64,), block=(64,))

    store = np.arange(201, dtype=np.float32)
    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for x in (store[:200], store[1:], store[:100], store[:200]):
            for _ in range(2):
                y = np.zeros_like(x)
                multiply(x, y, len(x))
                np.testing.assert_array_equal(y, factor * x)


def test_processes_take_turns_on_a_device():
    entered: list[str] = []

    def measure():
        with alone_on("hip:0"):
            entered.append("second")

    thread = threading.Thread(target=measure)
    with alone_on("hip:0"):
        thread.start()
        with alone_on("hip:1"), alone_on(""):
            thread.join(0.3)
            entered.append("first")
    thread.join(30)
    assert entered == ["first", "second"]
