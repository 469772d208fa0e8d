"""Compile the kernels of `kernels/` with the package of the interpreter that runs this file.

Usage: ``python peer_compile.py OUTPUT``, with the environment that the package needs to compile
without a GPU and to write its stages into ``OUTPUT/dump``. The code object of each case that is for
the architecture named by ``ARCH`` goes to ``OUTPUT/<case>.hsaco``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).with_name("kernels")
_BINARY = re.compile(rb'bin = "((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


def unescaped(text: bytes) -> bytes:
    """Return the bytes of an MLIR string literal."""

    def one(found: re.Match[bytes]) -> bytes:
        code = found[1]
        if len(code) == 2:
            return bytes([int(code, 16)])
        return {b"n": b"\n", b"t": b"\t"}.get(code, code)

    return _ESCAPE.sub(one, text)


def stages(dump: Path) -> set[Path]:
    """Return the files of a dump folder that hold device code."""
    return set(dump.glob("*/*_gpu_module_to_binary.mlir"))


def code_object(stage: Path) -> bytes:
    """Return the device code in a stage of a compile."""
    found = _BINARY.search(stage.read_bytes())
    if found is None:
        raise SystemExit(f"{stage} holds no binary")
    return unescaped(found[1])


def main(output: Path) -> None:
    """Compile every case."""
    sys.path.insert(0, str(KERNELS))
    import numpy as np
    import torch
    from kernel_cases import CASES

    for case in CASES:
        if not os.environ["ARCH"].startswith(case.arches):
            continue
        before = stages(output / "dump")
        tensors: list[Any] = [torch.from_numpy(x) for x in case.arrays(np.random.default_rng(0))]
        case.launch()(*tensors, *case.scalars)
        (stage,) = stages(output / "dump") - before
        (output / f"{case.name}.hsaco").write_bytes(code_object(stage))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
