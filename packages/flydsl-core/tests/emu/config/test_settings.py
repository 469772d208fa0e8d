"""Values of settings that cannot be used are refused by a call, whatever it needs of them."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu.settings
import flydsl_rocdl.settings
from flydsl import config
from flydsl.config import Setting, core
from flydsl.errors import FlyDSLError, UserValueError

MODULES = (core, flydsl_rocdl.settings, flydsl_emu.settings)
SETTINGS = [value for m in MODULES for value in vars(m).values() if isinstance(value, Setting)]
BAD = {"bool": ["maybe", "2"], "int": ["abc", "-1", "1.5", "9" * 30], "choice": ["other"]}
UNBOUNDED = {"FLYDSL_EMU_STEP_LIMIT", "FLYDSL_RUNTIME_CACHE_SIZE"}
"""Large numbers are no mistake."""
CHECKED_BY_USE = {
    "FLYDSL_TARGET",
    "FLYDSL_DEVICE",
    "FLYDSL_SANITIZE",
    # Programs and folders, which are looked for where they are needed.
    "FLYDSL_DUMP_DIR",
    "FLYDSL_RUNTIME_CACHE_DIR",
    "FLYDSL_EMU_CACHE_DIR",
    "FLYDSL_EMU_LLVM_MCA",
    "FLYDSL_HIP_LIBRARY",
    "FLYDSL_ROCDL_LLD",
    "FLYDSL_ROCDL_LLVM_MC",
    # Plugins may be absent; the others are HIP's, whose rules hold.
    "FLYDSL_PLUGINS_DISABLE",
    "HIP_VISIBLE_DEVICES",
    "ROCM_PATH",
}


def launcher():
    """Return a launcher that was never compiled before."""

    @flyc.kernel
    def kernel(x: fx.Tensor):
        x[fx.thread_idx.x] = 1.0

    @flyc.jit
    def start(x: fx.Tensor):
        kernel(x).launch(grid=1, block=4)

    return start


def launch():
    """Launch something that was never compiled before."""
    start = launcher()
    x = np.zeros(4, np.float32)
    start(x)
    assert (x == 1).all()


def bad_values():
    for setting in SETTINGS:
        for text in BAD.get(setting.parser.kind, []):
            if not (setting.name in UNBOUNDED and text.isdecimal()):
                for name in (setting.name, *setting.aliases):
                    yield pytest.param(setting, name, text, id=f"{name}={text[:4]}")


def test_every_setting_is_here():
    assert {s.name for s in SETTINGS if s.parser.kind not in BAD} == CHECKED_BY_USE


@pytest.mark.parametrize(("setting", "name", "text"), list(bad_values()))
def test_what_cannot_be_read_is_refused(monkeypatch, setting, name, text):
    for other in (setting.name, *setting.aliases):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, text)
    with pytest.raises(UserValueError) as caught:
        launch()
    error = caught.value
    assert error.message.startswith(f"the environment variable {name} has a value that cannot")
    assert (error.code, error.value) == ("FLY-U501", text)
    assert error.allowed == setting.parser.accepts
    assert setting.help in error.hint
    assert error.location.file == __file__


@pytest.mark.parametrize(
    ("name", "text", "code", "allowed"),
    [
        ("FLYDSL_DEVICE", "hpi", "FLY-T451", "emu, hip"),
        ("FLYDSL_DEVICE", "HIP", "FLY-T451", "emu, hip"),
        ("FLYDSL_DEVICE", ":1", "FLY-T451", "emu, hip"),
        ("FLYDSL_DEVICE", "emu:", "FLY-U450", "optional :index"),
        ("FLYDSL_DEVICE", "emu:one", "FLY-U450", "optional :index"),
        ("FLYDSL_DEVICE", "emu:-1", "FLY-U450", "optional :index"),
        ("FLYDSL_DEVICE", "emu:64", "FLY-T450", "an index below 1"),
        ("FLYDSL_TARGET", "gfx", "FLY-T600", "gfx942"),
        ("FLYDSL_TARGET", "hip", "FLY-T513", "gfx942"),
        ("FLYDSL_SANITIZE", "rase", "FLY-U739", "race"),
        ("FLYDSL_ROCDL_LLD", "/none/ld.lld", "FLY-T621", ""),
    ],
)
def test_what_names_nothing_is_refused(name, text, code, allowed):
    with config.scope(**{name: text}), pytest.raises(FlyDSLError) as caught:
        launch()
    error = caught.value
    assert error.code == code
    assert text.rpartition(":")[2] in str(error)
    assert allowed in error.allowed
    assert error.location.file == __file__
    assert name in str(error) or name in ("FLYDSL_TARGET", "FLYDSL_SANITIZE")


def test_a_device_that_the_tensors_are_not_on_is_no_mistake():
    with config.scope(FLYDSL_DEVICE="hip:1"):
        launch()


def test_a_loaded_launcher_refuses_them_too(tmp_path, monkeypatch):
    start = launcher()
    x = np.zeros(4, np.float32)
    flyc.compile(start, x).save(tmp_path / "start.fly")
    monkeypatch.setenv("FLYDSL_OUTPUT_BYTES", "abc")
    with pytest.raises(UserValueError, match="FLYDSL_OUTPUT_BYTES"):
        flyc.load(tmp_path / "start.fly")(x)
    assert not x.any()
