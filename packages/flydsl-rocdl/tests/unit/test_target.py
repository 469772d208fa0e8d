"""Target ids, limits, detection and the hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from flydsl.config import scope
from flydsl.errors import TargetError
from flydsl.plugins.payloads import LaunchShape, TargetSpec
from flydsl.targets import Target
from flydsl_rocdl import plugin
from flydsl_rocdl.arch import KFD_VERSION_KEY, KNOWN
from flydsl_rocdl.codes import CODES
from flydsl_rocdl.detect import current_device, gpu_architectures
from flydsl_rocdl.target import RocdlTarget, parse_target

SOURCES = Path(plugin.__file__).parent


def test_a_target_id_is_parsed_and_printed_in_canonical_order() -> None:
    spec = parse_target("gfx942:xnack-:sramecc+")
    assert spec == TargetSpec("rocdl", "gfx942", (("sramecc", True), ("xnack", False)))
    assert str(spec) == "gfx942:sramecc+:xnack-"
    assert RocdlTarget.from_spec(spec).llvm_features == "+sramecc,-xnack"


@pytest.mark.parametrize(
    "text", ["gfx942:xnack", "gfx942:xnack+:xnack-", "gfx942:fast+", "gfx1100:xnack+"]
)
def test_a_wrong_feature_is_refused(text: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(text)
    assert caught.value.code == "FLY-T601"


def test_other_vendors_are_left_to_other_plugins() -> None:
    assert parse_target("sm_90") is None
    assert plugin.flydsl_create_target(TargetSpec("nvvm", "sm_90")) is None


@pytest.mark.parametrize("name", list(KNOWN))
def test_the_target_satisfies_the_protocol(name: str) -> None:
    target = plugin.flydsl_create_target(TargetSpec("rocdl", name))
    assert isinstance(target, Target)
    assert target.arch == target.name == name
    assert target.warp_size in (32, 64)
    assert target.object_format == "hsaco"


def test_limits_are_checked() -> None:
    target = RocdlTarget.from_spec(TargetSpec("rocdl", "gfx942"))
    target.check_launch(LaunchShape("k", grid=(1, 1, 1), block=(1024, 1, 1), shared_bytes=65536))
    with pytest.raises(TargetError, match="1025 threads"):
        target.check_launch(LaunchShape("k", block=(1025, 1, 1)))
    with pytest.raises(TargetError, match="shared memory"):
        target.check_launch(LaunchShape("k", shared_bytes=65537))
    with pytest.raises(TargetError, match="along y"):
        target.check_launch(LaunchShape("k", grid=(1, 65536, 1)))


def _node(folder: Path, number: int, simds: int, version: int) -> None:
    path = folder / str(number)
    path.mkdir()
    path.joinpath("properties").write_text(
        f"cpu_cores_count 8\nsimd_count {simds}\n{KFD_VERSION_KEY} {version}\n"
    )


def test_the_driver_topology_tells_the_device(tmp_path: Path) -> None:
    _node(tmp_path, 0, 0, 0)
    _node(tmp_path, 10, 256, 90500)
    _node(tmp_path, 2, 1216, 90402)
    assert gpu_architectures(tmp_path) == ("gfx942", "gfx950")
    assert current_device(tmp_path) == TargetSpec("rocdl", "gfx942")
    with scope(HIP_VISIBLE_DEVICES="1"):
        assert current_device(tmp_path) == TargetSpec("rocdl", "gfx950")


def test_no_driver_and_unsupported_devices_are_no_device(tmp_path: Path) -> None:
    assert current_device(tmp_path / "absent") is None
    _node(tmp_path, 1, 60, 80003)
    assert current_device(tmp_path) is None


def test_no_architecture_is_named_outside_the_facts() -> None:
    offenders = [
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if path.parent.name != "arch" and "gfx" in path.read_text()
    ]
    assert offenders == []


def test_every_error_code_in_the_sources_is_in_the_catalogue() -> None:
    import re

    used = set()
    for path in SOURCES.rglob("*.py"):
        if path.name != "codes.py":
            used |= set(re.findall(r"FLY-[A-Z]6\d\d", path.read_text()))
    assert used == set(CODES)
