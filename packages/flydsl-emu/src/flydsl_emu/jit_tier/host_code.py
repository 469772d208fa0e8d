"""Machine code for this processor: compiled in the codegen worker, kept on disk, mapped.

An entry of the disk cache is a file named by the hash of everything that it depends on. It is
written under another name and renamed; what cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import struct
import sys
import tempfile
import zlib
from functools import cache
from importlib import metadata, resources
from pathlib import Path

from flydsl.caching import warn_if_no_folder
from flydsl.codegen import CodegenRequest, CodegenWorker, shared_worker
from flydsl.codegen.machine_code import MachineCode, MappedCode
from flydsl.errors import TargetError
from flydsl_emu.jit_tier.link import Image, link
from flydsl_emu.settings import CACHE_DIR

__all__ = ["CodeCache", "MappedImage", "compiled", "host_supported", "strip_height", "version_key"]

_TRIPLE = "x86_64-unknown-linux-gnu"
_LEVELS = (
    ("x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"),
    ("x86-64-v3", "avx2 bmi1 bmi2 f16c fma abm movbe"),
)
_EXTRAS = ("avx512_vbmi", "avx512_vbmi2", "avx512_vpopcntdq", "avx512_bitalg", "avx512_vnni")
_MAGIC = b"FLYJIT01"


@cache
def _flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


@cache
def _processor() -> tuple[str, str] | None:
    """Return LLVM's processor and features for this machine, or None if it is too old."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.platform == "win32":
        return None
    flags = _flags()
    for name, needed in _LEVELS:
        if flags.issuperset(needed.split()):
            extras = [f for f in _EXTRAS if f in flags] if name == "x86-64-v4" else []
            return name, ",".join(f"+{f.replace('_', '')}" for f in extras)
    return None


def host_supported() -> bool:
    """Return whether machine code can be made for this host (x86-64 with AVX2, F16C and FMA)."""
    return _processor() is not None


def strip_height() -> int:
    """Return how many vectors of 16 floats this machine's registers hold beside a few others."""
    processor = _processor()
    return 16 if processor is not None and processor[0] == "x86-64-v4" else 4


def compiled(text: str, level: int, worker: CodegenWorker | None = None) -> Image:
    """Compile LLVM IR text and link it.

    Args:
        text: The module.
        level: Optimisation level.
        worker: Where to compile; the process' shared worker by default.

    Raises:
        TargetError: The host has no code generator here, or LLVM cannot compile the text.
    """
    processor = _processor()
    if processor is None:
        raise TargetError(
            "the emulator's JIT has no code generator for this host",
            code="FLY-T706",
            value=f"{platform.machine()} on {sys.platform}",
            allowed="x86-64 with AVX2, F16C and FMA",
            hint="FLYDSL_EMU_TIER=numpy",
        )
    # Signed names: LLVM's spelling of a few features differs from the kernel's.
    request = CodegenRequest(
        text,
        _TRIPLE,
        cpu=processor[0],
        features=processor[1],
        opt_level=level,
        reloc="pic",
        code_model="small",
    )
    return link((worker or shared_worker()).compile(request).object)


@cache
def version_key() -> str:
    """Return the hash of what code depends on besides its input: sources, LLVM, processor."""
    digest = hashlib.sha256()
    root = resources.files("flydsl_emu")
    for folder in ("jit_tier", "semantics", "decode"):
        for entry in sorted(root.joinpath(folder).iterdir(), key=lambda e: e.name):
            if entry.name.endswith((".py", ".txt")):
                digest.update(entry.name.encode() + b"\0" + entry.read_bytes())
    digest.update(metadata.version("llvmlite").encode())
    digest.update(repr(_processor()).encode())
    return digest.hexdigest()


class MappedImage:
    """An image in executable memory.

    Args:
        image: The image.
        notes: What its maker wants to remember with it.
    """

    def __init__(self, image: Image, notes: dict[str, object]) -> None:
        self._code = MappedCode(MachineCode(image.data, 0, "x86_64"))
        self.symbols = image.symbols
        self.notes = notes
        self.size = len(image.data)

    def address(self, name: str) -> int:
        """Return the address of an exported function."""
        return self._code.address + self.symbols[name]


class CodeCache:
    """Images on disk.

    Args:
        folder: Where; None for the setting ``FLYDSL_EMU_CACHE_DIR``.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(f"{version_key()} {key}".encode()).hexdigest()
        return (self._folder or CACHE_DIR.get()) / f"{name}.jit"

    def has(self, key: str) -> bool:
        """Return whether something is kept under `key`."""
        return self._path(key).exists()

    def forget(self, key: str) -> None:
        """Remove what is kept under `key`."""
        self._path(key).unlink(missing_ok=True)

    def load(self, key: str) -> MappedImage | None:
        """Return the image kept under `key`, or None if there is none that is whole."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        if len(data) < 20 or data[:8] != _MAGIC:
            return None
        length, check = struct.unpack_from("<QI", data, 8)
        if zlib.crc32(data[20:]) != check:
            return None
        head = json.loads(data[20 : 20 + length])
        return MappedImage(Image(data[20 + length :], head["symbols"]), head["notes"])

    def keep(self, key: str, image: Image, notes: dict[str, object]) -> MappedImage:
        """Keep an image under `key`, if possible, and return it mapped."""
        path = self._path(key)
        head = json.dumps({"symbols": image.symbols, "notes": notes}).encode()
        body = head + image.data
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + struct.pack("<QI", len(head), zlib.crc32(body)) + body)
            os.replace(temporary, path)
        except OSError:
            warn_if_no_folder(path.parent, CACHE_DIR.name)
        return MappedImage(image, notes)
