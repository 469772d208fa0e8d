"""Which runtime and device a call uses."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from flydsl import config, plugins
from flydsl.errors import CompilerBug, TargetError, UserValueError
from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import RuntimeInfo
from flydsl.runtime import choose_placement


class FakeRuntime:
    """A runtime that only counts devices."""

    def __init__(self, name, devices):
        self.name = name
        self.wants_extents = False
        self._devices = devices

    def device_count(self):
        return self._devices

    def _unused(self, *arguments):
        raise AssertionError("choosing a runtime must not use it")

    def problem(self):
        return "the driver is too old"

    device_spec = load = restart = launch_address = driver_address = take_error = _unused
    current_stream = synchronize = measure = allocate = free = copy_to_device = copy_from_device = (
        _unused
    )


@pytest.fixture
def announce(monkeypatch):
    """Return a function that makes a plugin with the given runtimes."""
    module = ModuleType("fake_runtimes")
    module.made = []
    monkeypatch.setitem(sys.modules, "fake_runtimes", module)

    def add(name, device_types, *, devices=1, formats=("hsaco",), emulated=False):
        def factory():
            module.made.append(name)
            return FakeRuntime(name, devices)

        setattr(module, name, factory)
        return RuntimeInfo(name, f"fake_runtimes:{name}", formats, device_types, emulated)

    def plugin(*infos):
        class Plugin:
            @hookimpl
            def flydsl_device_runtimes(self):
                return infos

        return Plugin()

    add.plugin = plugin
    add.made = module.made
    return add


def chosen(announce, infos, devices, **options):
    with plugins.isolated(announce.plugin(*infos)):
        return choose_placement(devices, **options).name


@pytest.fixture
def both(announce):
    return (
        announce("hip", ("cuda",), devices=2),
        announce("emu", ("cpu",), emulated=True),
    )


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (["cpu", "cpu"], "emu:0"),
        (["cuda:1", "cuda:1"], "hip:1"),
        (["cuda"], "hip:0"),
        ([], "hip:0"),
        (["", "cpu"], "emu:0"),
    ],
)
def test_the_tensors_decide(announce, both, devices, expected):
    assert chosen(announce, both, devices) == expected


def test_without_tensors_or_a_device_the_emulator_is_used(announce):
    infos = (
        announce("hip", ("cuda",), devices=0),
        announce("emu", ("cpu",), emulated=True),
    )
    assert chosen(announce, infos, []) == "emu:0"


def test_the_setting_names_the_runtime_of_a_call_without_tensors(announce, both):
    with config.scope(FLYDSL_DEVICE="emu"):
        assert chosen(announce, both, []) == "emu:0"
    with config.scope(FLYDSL_DEVICE="hip:1"):
        assert chosen(announce, both, []) == "hip:1"
        assert chosen(announce, both, ["cpu"]) == "emu:0"


def test_code_format_decides_between_runtimes_of_one_device_type(announce):
    infos = (
        announce("emu", ("cpu",), emulated=True),
        announce("toy", ("cpu",), formats=("toy-object",), emulated=True),
    )
    assert chosen(announce, infos, ["cpu"], object_format="toy-object") == "toy:0"
    assert chosen(announce, infos, [], object_format="toy-object") == "toy:0"
    with config.scope(FLYDSL_DEVICE="toy"):
        assert chosen(announce, infos, ["cpu"]) == "toy:0"


def test_tensors_on_different_devices(announce, both):
    for devices in (["cpu", "cuda:0"], ["cuda:0", "cuda:1"]):
        with pytest.raises(UserValueError, match="different devices") as caught:
            chosen(announce, both, devices)
        assert caught.value.code == "FLY-U451"


@pytest.mark.parametrize(
    ("devices", "options", "reason"),
    [
        (["xpu:0"], {}, "serves xpu tensors"),
        (["cpu"], {"object_format": "cubin"}, "serves cpu tensors and loads cubin code"),
        (["cuda:7"], {}, "no device 7"),
        (["cuda:7"], {}, "the driver is too old"),
    ],
)
def test_nothing_that_fits(announce, both, devices, options, reason):
    with pytest.raises(TargetError, match=reason):
        chosen(announce, both, devices, **options)


def test_nothing_installed_says_what_to_install(announce):
    for devices in (["cpu"], []):
        with pytest.raises(TargetError, match="pip install flydsl-emu"):
            chosen(announce, (), devices)


@pytest.mark.parametrize(
    ("setting", "error"), [("emu:x", UserValueError), ("none", TargetError), ("hip:5", TargetError)]
)
def test_unusable_setting(announce, both, setting, error):
    with config.scope(FLYDSL_DEVICE=setting), pytest.raises(error):
        chosen(announce, both, [])


def test_a_runtime_is_made_once(announce, both):
    with plugins.isolated(announce.plugin(*both)):
        first = choose_placement(["cpu"])
        assert choose_placement(["cpu"]).runtime is first.runtime
    assert announce.made == ["emu"]


def test_something_that_is_no_runtime(announce, monkeypatch):
    info = announce("emu", ("cpu",))
    monkeypatch.setattr(sys.modules["fake_runtimes"], "emu", object)
    with pytest.raises(CompilerBug, match="does not implement DeviceRuntime"):
        chosen(announce, (info,), ["cpu"])
