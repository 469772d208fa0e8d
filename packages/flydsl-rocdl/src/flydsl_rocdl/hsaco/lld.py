"""Linking with an external lld, for those who prefer it (``FLYDSL_ROCDL_LLD=path``)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from flydsl.errors import TargetError

__all__ = ["link_with_lld"]


def link_with_lld(data: bytes, program: str) -> bytes:
    """Link one relocatable object with ``program -shared``.

    Args:
        data: The relocatable object.
        program: Path or name of an ``ld.lld``.

    Raises:
        TargetError: The program cannot be started or reports an error.
    """
    with tempfile.TemporaryDirectory(prefix="flydsl-link-") as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(data)
        command = [program, "-shared", "--no-undefined", str(source), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TargetError(
                f"cannot start the linker {program!r}: {error}",
                code="FLY-T621",
                hint="unset FLYDSL_ROCDL_LLD to use the built-in linker",
            ) from error
        if done.returncode:
            raise TargetError(
                f"the linker failed: {done.stderr.strip()}", code="FLY-T622", value=program
            )
        return result.read_bytes()
