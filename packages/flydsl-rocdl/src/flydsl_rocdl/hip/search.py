"""Where ``libamdhip64`` can be: already in the process, in a ROCm installation, in a pip package.

Two copies of HIP in one process do not know each other's streams and memory, so a copy that is
already loaded (PyTorch's) goes first, and one inside an installed torch before the system's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from flydsl_rocdl.settings import HIP_LIBRARY, ROCM_PATH

__all__ = ["candidates", "loaded_libraries"]

_NAME = "libamdhip64.so"
_IS_LIBRARY = re.compile(re.escape(_NAME) + r"(\.\d+)*")
_MAPS = Path("/proc/self/maps")
_PIP_FOLDERS = ("torch/lib", "_rocm_sdk_core/lib", "_rocm_sdk_devel/lib")
"""Folders of ``site-packages``: PyTorch's ROCm wheels and AMD's ``rocm-sdk-core`` wheels."""


def loaded_libraries(maps: Path = _MAPS) -> tuple[str, ...]:
    """Return the paths of HIP libraries that this process has loaded (Linux)."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return ()
    found: dict[str, None] = {}
    for line in lines:
        path = line.partition("/")[2]
        if _NAME in path.rpartition("/")[2]:
            found["/" + path.removesuffix(" (deleted)")] = None
    return tuple(found)


def candidates() -> Iterator[str]:
    """Yield library paths and names in the order in which they should be tried."""
    chosen = HIP_LIBRARY.get()
    if chosen is not None:
        # Who names a library wants that one or an error.
        yield str(chosen)
        return
    yield from loaded_libraries()
    folders = [Path(entry) / part for entry in sys.path if entry for part in _PIP_FOLDERS]
    root = ROCM_PATH.get()
    if root is not None:
        folders.append(root / "lib")
    # Where conda puts libraries, and where ROCm's installers do.
    folders += [Path(sys.prefix) / "lib", Path("/opt/rocm/lib")]
    folders += sorted(Path("/opt").glob("rocm-*/lib"), key=_version, reverse=True)
    for folder in folders:
        # The newest ABI first; the plain name is often missing outside development packages.
        found = [path for path in folder.glob(f"{_NAME}*") if _IS_LIBRARY.fullmatch(path.name)]
        yield from map(str, sorted(found, key=_version, reverse=True))
    yield from (f"{_NAME}.7", f"{_NAME}.6", _NAME)


def _version(path: Path) -> list[int]:
    """Return the numbers in a path: version 10 comes after version 9."""
    return [int(number) for number in re.findall(r"\d+", str(path))]
