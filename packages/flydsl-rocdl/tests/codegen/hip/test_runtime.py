"""Devices, modules, memory, peers and the search for the library."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from flydsl import config, plugins
from flydsl.errors import TargetError, UserError, UserValueError
from flydsl.ext import arrays
from flydsl_rocdl.hip import HipRuntime, peers, search

KERNEL = """
gpu.module @m {{
  gpu.func @k(%n: i32) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    gpu.return
  }}
}}
"""


@pytest.fixture
def code(build):
    return build(KERNEL.format())


def test_devices_are_those_that_hip_reports(runtime, stub):
    stub.devices("gfx942:sramecc+:xnack-", "gfx950:sramecc+:xnack-", "gfx1100")
    assert runtime.device_count() == 3
    assert [str(runtime.device_spec(i)) for i in range(3)] == [
        "gfx942:sramecc+:xnack-",
        "gfx950:sramecc+:xnack-",
        "gfx1100",
    ]
    assert runtime.problem() == ""


def test_the_model_is_what_hip_calls_the_device(runtime, stub):
    assert runtime.device_model(0) == "AMD Stand-in"
    with pytest.raises(TargetError):
        runtime.device_model(1)


def test_no_device_is_not_an_error(runtime, stub):
    stub.devices()
    assert runtime.device_count() == 0
    assert runtime.problem() == "HIP sees no GPU"


def test_an_unknown_architecture_is_refused_by_name(runtime, stub):
    stub.devices("gfx4711")
    with pytest.raises(TargetError, match="gfx4711"):
        runtime.device_spec(0)


def test_modules_load_on_their_device_and_unload(runtime, stub, code):
    stub.devices("gfx942", "gfx942")
    module = runtime.load(code, 1)
    assert module.hip_function("k") & 7 == 1
    assert module.function("k") == module.function("k")
    with pytest.raises(KeyError):
        module.function("other")
    assert module.active_blocks("k", 256, 2 << 16) == 6
    before = stub.library.stub_unloads()
    module.unload()
    assert stub.library.stub_unloads() == before + 1


def test_code_for_another_architecture_is_not_loaded(runtime, stub, code):
    stub.devices("gfx950")
    with pytest.raises(TargetError, match="another architecture"):
        runtime.load(code, 0)


def test_a_module_may_be_loaded_while_a_graph_is_captured(runtime, stub, code):
    stub.library.hipStreamBeginCapture(None, 0)
    try:
        runtime.load(code, 0)
    finally:
        stub.library.hipStreamEndCapture(None, (stub.last.kernarg))


def test_memory_makes_the_round_trip(runtime):
    address = runtime.allocate(16, 0)
    runtime.copy_to_device(address, b"0123456789abcdef", 0)
    assert runtime.copy_from_device(address, 16, 0) == b"0123456789abcdef"
    assert runtime.copy_from_device(address + 4, 3, 0) == b"456"
    runtime.free(address, 0)


def test_errors_carry_hips_name_and_text(runtime, stub):
    runtime.device_count()
    stub.fail(719)
    with pytest.raises(TargetError, match="hipStreamSynchronize failed") as caught:
        runtime.synchronize(0, 0)
    assert "hipErrorLaunchFailure (719)" in str(caught.value)


def test_peer_access_is_enabled_once(runtime, stub):
    stub.devices("gfx942", "gfx942")
    peers.enable_peer_access(runtime, 0, 1)
    peers.enable_peer_access(runtime, 0, 1)
    peers.enable_peer_access(runtime, 1, 1)
    assert stub.library.stub_peer(0, 1) == 1
    assert stub.library.stub_peer(1, 0) == 0


def test_handles_name_memory_for_other_processes(runtime):
    address = runtime.allocate(64, 0)
    handle = peers.export_shared(runtime, address, 0)
    assert len(handle) == peers.IPC_HANDLE_BYTES
    assert peers.open_shared(runtime, handle, 0) == address
    peers.close_shared(runtime, address, 0)
    with pytest.raises(UserError, match="63 bytes"):
        peers.open_shared(runtime, handle[1:], 0)
    for wrong in ("x" * peers.IPC_HANDLE_BYTES, address, None):
        with pytest.raises(UserError, match="no handle of shared"):
            peers.open_shared(runtime, wrong, 0)


def test_the_current_stream_is_torchs(runtime, monkeypatch):
    assert runtime.current_stream(0) == 0
    torch = SimpleNamespace(
        version=SimpleNamespace(hip="7.0"),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 0x900 + device),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert runtime.current_stream(1) == 0x901


def test_a_torch_without_hip_has_no_streams_for_us(runtime, monkeypatch):
    torch = SimpleNamespace(version=SimpleNamespace(hip=None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert runtime.current_stream(0) == 0


def test_a_missing_library_says_where_to_get_it(tmp_path):
    runtime = HipRuntime(str(tmp_path / "libamdhip64.so.7"))
    assert runtime.device_count() == 0
    assert "FLYDSL_HIP_LIBRARY" in runtime.problem()
    with pytest.raises(TargetError, match="cannot be loaded"):
        runtime.library  # noqa: B018 - the property raises


def test_a_library_of_another_kind_is_not_taken(tmp_path):
    import _ctypes

    with pytest.raises(TargetError, match="cannot be loaded"):
        HipRuntime(_ctypes.__file__).library  # noqa: B018 - the property raises


def test_the_search_prefers_what_is_loaded_then_packages_then_installations(tmp_path, monkeypatch):
    maps = tmp_path / "maps"
    maps.write_text(
        "7f-8f r-xp 0 0 0 /venv/torch/lib/libamdhip64.so\n"
        "8f-9f r--p 0 0 0 /venv/torch/lib/libamdhip64.so\n"
        "9f-af r--p 0 0 0 /usr/lib/libc.so.6\n"
        "af-bf r--p 0 0 0 \n"
    )
    assert search.loaded_libraries(maps) == ("/venv/torch/lib/libamdhip64.so",)
    assert search.loaded_libraries(tmp_path / "none") == ()
    wheel = tmp_path / "site" / "_rocm_sdk_core" / "lib"
    rocm = tmp_path / "rocm" / "lib"
    for folder, name in ((wheel, "libamdhip64.so.7"), (rocm, "libamdhip64.so")):
        folder.mkdir(parents=True)
        (folder / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    with config.scope(ROCM_PATH=str(tmp_path / "rocm"), FLYDSL_HIP_LIBRARY=None):
        found = [path for path in search.candidates() if str(tmp_path) in path]
    assert found == [str(wheel / "libamdhip64.so.7"), str(rocm / "libamdhip64.so")]
    with config.scope(FLYDSL_HIP_LIBRARY="/x/lib.so"):
        assert list(search.candidates()) == ["/x/lib.so"]


def test_the_newest_version_is_tried_first_and_other_files_are_not(tmp_path, monkeypatch):
    folder = tmp_path / "rocm-6.4" / "lib"
    folder.mkdir(parents=True)
    versions = ["", ".6", ".7", ".7.1.9", ".7.1.10", ".10"]
    for suffix in (*versions, ".7.bak", "-gdb.py", ".7.debug"):
        (folder / f"libamdhip64.so{suffix}").touch()
    prefix = tmp_path / "conda"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib" / "libamdhip64.so.6").touch()
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "prefix", str(prefix))
    with config.scope(ROCM_PATH=str(folder.parent), FLYDSL_HIP_LIBRARY=None):
        found = [path for path in search.candidates() if str(tmp_path) in path]
    assert found[-1] == str(prefix / "lib" / "libamdhip64.so.6")
    names = [path.removeprefix(f"{folder}/libamdhip64.so") for path in found[:-1]]
    assert names == [".10", ".7.1.10", ".7.1.9", ".7", ".6", ""]


def test_measuring_takes_the_median_of_batches_between_events(runtime):
    runs = []
    value, unit = runtime.measure(lambda: runs.append(1), 0)
    # The stub's events are 1.5 ms apart: five warm-ups, then batches of five milliseconds.
    assert len(runs) == 5 + 5 * 17
    assert unit == "ms"
    assert value == pytest.approx(1.5 / 17)


def test_the_target_of_arrays_follows_settings_devices_and_plugins(hip_for_host, stub, monkeypatch):
    array = np.zeros(1, np.float32)
    gfx942 = arrays.target_of(array)
    assert gfx942.name == "gfx942:sramecc+:xnack-"
    assert arrays.target_of(array) is gfx942
    for text in ("gfx950", "gfx942:xnack+"):
        with config.scope(FLYDSL_TARGET=text), pytest.raises(TargetError) as caught:
            arrays.target_of(array)
        assert caught.value.code == "FLY-T515"
    with config.scope(FLYDSL_TARGET="gfx942"):
        assert arrays.target_of(array).name == "gfx942"
    with config.scope(FLYDSL_TARGET="gfx950", COMPILE_ONLY=True):
        assert arrays.target_of(array).arch == "gfx950"
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "9")
    with pytest.raises(UserValueError, match="FLYDSL_COMPILE_OPT_LEVEL"):
        arrays.target_of(array)
    monkeypatch.delenv("FLYDSL_COMPILE_OPT_LEVEL")
    assert arrays.target_of(array) is gfx942
    monkeypatch.setenv("FLYDSL_DEVICE", "hip:1")
    with pytest.raises(TargetError) as caught:
        arrays.target_of(array)
    assert caught.value.code == "FLY-T450"
    stub.devices("gfx942:sramecc+:xnack-", "gfx950")
    assert arrays.target_of(array).arch == "gfx950"
    monkeypatch.setenv("FLYDSL_DEVICE", "hip")
    assert arrays.target_of(array) is gfx942
    stub.devices()
    with pytest.raises(TargetError) as caught:
        arrays.target_of(array)
    assert caught.value.code == "FLY-T450"
    stub.devices("gfx1100")
    with plugins.isolated(installed=True):
        assert arrays.target_of(array).arch == "gfx1100"
        monkeypatch.setenv("FLYDSL_DEVICE", "emu")
        monkeypatch.setenv("FLYDSL_TARGET", "gfx1201")
        assert arrays.target_of(array).arch == "gfx1201"
        monkeypatch.setenv("FLYDSL_TARGET", "gfx1250")
        assert arrays.target_of(array).arch == "gfx1250"
