"""Tuned launchers in the emulator: every candidate checked, the model as the objective."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.autotune import Config, autotune, do_bench
from flydsl.autotune.results import Result, results_folder
from flydsl.cli import main
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import UserError


@flyc.kernel
def add_kernel(
    A: fx.Tensor, C: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int], wrong: fx.Constexpr[bool]
):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        C[i] = C[i] + A[i] * (2.0 if wrong else 1.0)


def tuned(configs, **options):
    @autotune(configs, **options)
    @flyc.jit
    def add(
        A: fx.Tensor,
        C: fx.Tensor,
        n: fx.Int32,
        block: fx.Constexpr[int],
        wrong: fx.Constexpr[bool] = False,
    ):
        grid = ((n + block - 1) // block,)
        add_kernel(A, C, n, block, wrong).launch(grid=grid, block=(block,))

    return add


def data(n=1000):
    return np.arange(n, dtype=np.float32), np.full(n, 5, np.float32)


def test_the_cheapest_by_the_model_wins_and_runs_once():
    add = tuned([Config(block=64), Config(block=256), Config(block=512)])
    a, c = data()
    add(a, c, 1000)
    # The search has run every candidate, but only the winner's one call shows.
    assert np.array_equal(c, a + 5)
    (result,) = add.results.values()
    costs = [trial.value for trial in result.trials]
    assert len(costs) == 3
    assert all(cost > 0 for cost in costs)
    assert {trial.unit for trial in result.trials} == {"model us"}
    assert result.best == result.trials[costs.index(min(costs))].config
    add(a, c, 1000)
    assert np.array_equal(c, 2 * a + 5)


def test_a_candidate_with_other_results_is_rejected_however_fast():
    def fast_if_wrong(run):
        run()
        return (0.001 if add.last.values["wrong"] else 1.0), "made up"

    def note(values):
        add.last = Config(block=values["block"], wrong=values["wrong"])

    configs = [Config(block=64, wrong=w, pre_hook=note) for w in (False, True)]
    add = tuned(configs, do_bench=fast_if_wrong)
    a, c = data()
    with pytest.warns(FlyDSLWarning, match="C differs in 999 elements"):
        add(a, c, 1000)
    assert np.array_equal(c, a + 5)
    (result,) = add.results.values()
    assert result.trials[1].rejected.startswith("wrong results")


def test_candidates_that_do_not_compile_or_run_are_left_out():
    add = tuned([Config(block=2048), Config(block=64)])
    a, c = data()
    add(a, c, 1000)
    (result,) = add.results.values()
    assert "does not compile" in result.trials[0].rejected
    assert result.best == Config(block=64)
    with pytest.raises(UserError, match="none of the configurations runs") as caught:
        tuned([Config(block=2048)])(a, c, 1000)
    assert "block=2048" in str(caught.value)


def test_results_are_kept_shipped_and_searched_again(folder):
    calls = []

    def counting(run):
        run()
        calls.append(1)
        return 1.0 / len(calls), "made up"

    configs = [Config(block=64), Config(block=128)]
    a, c = data()
    tuned(configs, do_bench=counting)(a, c, 1000)
    assert len(calls) == 2
    again = tuned(configs, do_bench=counting)
    assert again.resolve_config(a, c, 1000) == Config(block=128)
    assert len(calls) == 2
    (path,) = results_folder().glob("*.json")
    content = json.loads(path.read_text())
    assert content["provenance"]["target"] == "gfx942"
    assert content["provenance"]["flydsl-rocdl"]
    assert Result.from_json(path.read_text()).to_json() == path.read_text()
    # Another kind of call is another search.
    again(a[::2], c[::2], 500)
    assert len(calls) == 4
    # A shipped table serves a machine that has none of its own.
    shipped = folder / "shipped"
    path.rename(shipped.mkdir() or shipped / path.name)
    assert tuned(configs, do_bench=counting, artifact=shipped).resolve_config(a, c, 1000) == (
        Config(block=128)
    )
    assert len(calls) == 4
    with config.scope(FLYDSL_AUTOTUNE=True):
        tuned(configs, do_bench=counting, artifact=shipped)(a, c, 1000)
    assert len(calls) == 6
    # A damaged file or one that names a candidate that is gone is no result.
    for broken in results_folder().glob("*.json"):
        broken.write_text("{")
    tuned(configs, do_bench=counting)(a, c, 1000)
    tuned([Config(block=192)], do_bench=counting)(a, c, 1000)
    assert len(calls) == 9


def test_a_default_avoids_the_search():
    add = tuned([Config(block=64)], default=lambda arguments: Config(block=arguments["n"] // 4))
    a, c = data()
    assert add.resolve_config(a, c, 1000) == Config(block=250)
    add(a, c, 1000)
    assert np.array_equal(c, a + 5)


def test_keys_pruning_and_configurations_from_the_arguments():
    seen = []

    def configs(arguments):
        seen.append(arguments["n"])
        return [Config(block=b) for b in (32, 64, 128, 256)]

    add = tuned(
        configs,
        key=["n"],
        prune_configs_by={
            "early_config_prune": lambda found, _: found[1:],
            "perf_model": lambda **values: values["block"],
            "top_k": 2,
        },
    )
    a, c = data()
    add(a, c, 1000)
    (result,) = add.results.values()
    assert [trial.config for trial in result.trials] == [Config(block=64), Config(block=128)]
    # The key names n only: tensors of another size share the result.
    add(*data(2000), 1000)
    assert len(add.results) == 1
    add(a, c, 999)
    assert len(add.results) == 2
    assert seen[0] == 1000


def test_tensors_are_cleared_before_runs_where_asked():
    add = tuned([Config(block=64), Config(block=128)], reset_to_zero=["C"])
    a, c = data()
    add(a, c, 1000)
    assert np.array_equal(c, a)


def test_wrong_use_is_explained():
    add = tuned([Config(block=64)])
    a, c = data()
    with pytest.raises(UserError, match="given by the call and by its configuration"):
        add(a, c, 1000, block=64)
    with pytest.raises(UserError, match="no parameter for 'other'"):
        add(a, c, 1000, other=1)
    with pytest.raises(UserError, match="decorates launchers"):
        autotune([])(print)
    with pytest.raises(UserError, match="results file"):
        Config(block=[1])
    with pytest.raises(UserError, match="no limit of registers"):
        Config(maxnreg=128)
    with pytest.raises(UserError, match="no configuration"):
        tuned([])(a, c, 1000)


def test_do_bench_reports_the_model():
    @flyc.jit
    def add(A: fx.Tensor, C: fx.Tensor):
        add_kernel(A, C, 64, 64, False).launch(grid=1, block=64)

    a, c = data(64)
    value, unit = do_bench(lambda: add(a, c), runtime="emu")
    assert value > 0
    assert unit == "model us"


PROGRAM = """
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune

@flyc.kernel
def kernel(A: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int], factor: fx.Constexpr[int]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        A[i] = A[i] * 2.0 + (factor - 1)

@autotune([Config(block=64, factor=1), Config(block=128, factor=1), Config(block=64, factor=2),
           Config(block=4096, factor=1)])
@flyc.jit
def double(A: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int], factor: fx.Constexpr[int]):
    kernel(A, n, block, factor).launch(grid=((n + block - 1) // block,), block=(block,))

def problems():
    return [(np.ones(n, np.float32), n) for n in (100, 200)]

def none():
    return [(np.ones(10, np.float64), 10)]
"""


def test_the_command_searches_on_worker_processes(folder, monkeypatch, capfd):
    (folder / "tuned_program.py").write_text(PROGRAM + "\nprint('imported')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(folder)
    command = ["tune", "tuned_program:double", "--problems", "tuned_program:problems"]
    assert main([*command, "--workers", "1", "-o", str(folder / "shipped")]) == 0
    out = capfd.readouterr().out
    assert out.count("wrong results: A differs") == 2
    assert out.count("fails: ") == 2
    assert len(list((folder / "shipped").glob("*.json"))) == 2
    import tuned_program

    (a, n), _ = tuned_program.problems()
    tuned_program.double(a, n)
    assert (a == 2).all()
    assert len(tuned_program.double.results) == 2, list(tuned_program.double.results)
    result = next(iter(tuned_program.double.results.values()))
    assert result.provenance["date"]
    assert "imported" not in out
    assert main(["tune", "tuned_program:none", "--problems", "tuned_program:none"]) != 0
    assert "not decorated with @autotune" in capfd.readouterr().err
    assert main([*command, "-o", __file__]) == 1
    printed = capfd.readouterr()
    assert "FLY-U525" in printed.err
    assert "problem 0" not in printed.out
    assert main(["tune", "tuned_program", "--problems", "x:y"]) != 0


@pytest.mark.parametrize("what", ["key", "reset_to_zero"])
@pytest.mark.parametrize("names", [["typo"], ["n", "C "], "n", [3]])
def test_names_are_checked_at_the_decoration(what, names):
    with pytest.raises(UserError, match="FLY-U476") as caught:
        tuned([Config(block=64)], **{what: names})
    assert what in str(caught.value)
    assert "test_autotune.py" in str(caught.value)
    tuned([Config(block=64)], **{what: ["C"]})


def test_an_empty_list_is_refused_at_the_decoration():
    with pytest.raises(UserError, match="FLY-U472"):
        tuned([])


FORBIDDEN = 64
"""Block with which the launcher below does not compile."""
WANTED = 2.0
"""What the reference below multiplies by."""


@flyc.kernel
def times_kernel(X: fx.Tensor, Y: fx.Tensor, block: fx.Constexpr[int], factor: fx.Constexpr[float]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    Y[i] = X[i] * factor


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "described first"])
def test_results_in_memory_hold_for_the_program_as_it_is(folder, monkeypatch, wrapped):
    runs = []

    def measure(run):
        run()
        runs.append(1)
        return float(len(runs))

    @autotune([Config(block=64), Config(block=128)], do_bench=measure)
    @flyc.jit
    def double(X: fx.Tensor, Y: fx.Tensor, block: fx.Constexpr[int]):
        if block == FORBIDDEN:
            raise ValueError(block)
        times_kernel(X, Y, block, 2.0).launch(grid=256 // block, block=block)

    def chosen(call):
        """Return the block, how many candidates were measured, and how many results are known."""
        x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
        before = len(runs)
        given = flyc.from_dlpack(x) if wrapped else x
        if call:
            double(given, y)
            assert (y == 2).all()
        block = double.resolve_config(given, y).values["block"]
        return block, len(runs) - before, len(double.results)

    for call in (True, False):
        double.results.clear()
        shutil.rmtree(folder / "cache", ignore_errors=True)
        assert chosen(call) == (128, 1, 1)
        monkeypatch.setitem(globals(), "FORBIDDEN", 128)
        assert chosen(call) == (64, 1, 1)
        monkeypatch.setitem(globals(), "FORBIDDEN", 0)
        assert chosen(call) == (64, 2, 1)
        # What was found for a program holds again when the program does.
        for forbidden, block in ((128, 64), (64, 128)):
            monkeypatch.setitem(globals(), "FORBIDDEN", forbidden)
            assert chosen(call) == (block, 0, 1)
        double._found.clear()


@pytest.mark.filterwarnings("ignore:.*other results than the reference")
def test_results_in_memory_hold_for_the_reference_as_it_is(folder, monkeypatch):
    @autotune([Config(factor=2.0), Config(factor=3.0)], do_bench=lambda run: (run(), 1.0)[1])
    @flyc.jit
    def times(X: fx.Tensor, Y: fx.Tensor, factor: fx.Constexpr[float]):
        times_kernel(X, Y, 64, factor).launch(grid=1, block=64)

    @times.reference
    def reference(arguments):
        arguments["Y"][:] = arguments["X"] * WANTED

    for wanted in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "WANTED", wanted)
        y = np.zeros(64, np.float32)
        for _ in range(2):
            times(np.ones(64, np.float32), y)
            assert (y == wanted).all()
