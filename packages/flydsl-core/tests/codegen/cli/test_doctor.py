from __future__ import annotations

from flydsl.cli import probes


def test_the_libraries_of_this_environment_are_found_working():
    (mlir,) = probes._mlir()
    (worker,) = probes._codegen()
    assert (mlir.topic, mlir.status) == ("mlir", "ok"), mlir
    assert (worker.topic, worker.status) == ("codegen worker", "ok"), worker
    assert probes.installed_version("llvmlite") in worker.detail


def test_libraries_that_do_not_load_are_reported_with_what_to_install(monkeypatch):
    def broken(_script):
        return False, "ImportError: libLLVM.so"

    monkeypatch.setattr(probes, "_in_child", broken)
    for probe in (probes._mlir, probes._codegen):
        (finding,) = probe()
        assert finding.status == "fail"
        assert "libLLVM.so" in finding.detail
        assert finding.hint.startswith("pip install")


def test_every_probe_reports_on_this_machine():
    findings = probes.examine()
    topics = [finding.topic for finding in findings]
    for expected in ("python", "flydsl-core", "name clash", "mlir", "codegen worker", "device"):
        assert expected in topics
    assert not [f for f in findings if f.detail.startswith("could not be examined")]
