"""The settings of the core; a plugin declares its own next to the code that reads them."""

from __future__ import annotations

from pathlib import Path

from flydsl.config.parsers import boolean, integer, names, path, power_of_two, text
from flydsl.config.settings import Setting, default_cache_dir, setting

__all__ = [
    "AUTOTUNE",
    "CACHE_DIR",
    "CACHE_SIZE",
    "COMPILE_ONLY",
    "DEBUG_INFO",
    "DEVICE",
    "DUMP_DIR",
    "DUMP_IR",
    "ENABLE_CACHE",
    "OPT_LEVEL",
    "OUTPUT_BYTES",
    "PLUGINS_DISABLE",
    "PLUGINS_TRACE",
    "RUN_ONLY",
    "TARGET",
    "VERIFY",
]

TARGET: Setting[str | None] = setting(
    "FLYDSL_TARGET",
    text,
    None,
    "architecture to compile for, with optional features as name:feature+:feature-",
    aliases=("ARCH", "FLYDSL_GPU_ARCH"),
)
DEVICE: Setting[str | None] = setting(
    "FLYDSL_DEVICE",
    text,
    None,
    "runtime for calls without tensors, as name or name:index (see `flydsl doctor`)",
)
COMPILE_ONLY: Setting[bool] = setting(
    "COMPILE_ONLY",
    boolean,
    False,
    "compile but do not launch",
    aliases=("FLYDSL_COMPILE_ONLY",),
)
OPT_LEVEL: Setting[int] = setting(
    "FLYDSL_COMPILE_OPT_LEVEL", integer(0, 3), 3, "LLVM optimisation level"
)
DUMP_IR: Setting[bool] = setting(
    "FLYDSL_DUMP_IR", boolean, False, "write every compile stage to FLYDSL_DUMP_DIR"
)
DUMP_DIR: Setting[Path] = setting(
    "FLYDSL_DUMP_DIR",
    path,
    Path("~/.flydsl/debug").expanduser(),
    "where FLYDSL_DUMP_IR=1 writes",
)
VERIFY: Setting[bool] = setting(
    "FLYDSL_VERIFY",
    boolean,
    False,
    "run the verifiers after every pass",
    aliases=("FLYDSL_DEBUG_ENABLE_VERIFIER",),
)
DEBUG_INFO: Setting[bool] = setting(
    "FLYDSL_DEBUG_INFO",
    boolean,
    False,
    "emit source line tables into the code object",
    aliases=("FLYDSL_DEBUG_ENABLE_DEBUG_INFO",),
)
OUTPUT_BYTES: Setting[int] = setting(
    "FLYDSL_OUTPUT_BYTES",
    power_of_two(1 << 10, 1 << 30),
    1 << 22,
    "bytes of the buffer that carries printf and device_assert, a power of two",
)
PLUGINS_DISABLE: Setting[tuple[str, ...]] = setting(
    "FLYDSL_PLUGINS_DISABLE",
    names,
    (),
    "plugins to leave out, by entry-point or distribution name",
)
PLUGINS_TRACE: Setting[bool] = setting(
    "FLYDSL_PLUGINS_TRACE", boolean, False, "print every hook call on stderr"
)
ENABLE_CACHE: Setting[bool] = setting(
    "FLYDSL_RUNTIME_ENABLE_CACHE", boolean, True, "keep compiled launchers on disk"
)
CACHE_DIR: Setting[Path] = setting(
    "FLYDSL_RUNTIME_CACHE_DIR", path, default_cache_dir(), "where compiled launchers are kept"
)
CACHE_SIZE: Setting[int] = setting(
    "FLYDSL_RUNTIME_CACHE_SIZE", integer(1), 2048, "MiB that compiled launchers may take on disk"
)
RUN_ONLY: Setting[bool] = setting(
    "FLYDSL_RUNTIME_RUN_ONLY", boolean, False, "run only what is in the cache; never compile"
)
AUTOTUNE: Setting[bool] = setting(
    "FLYDSL_AUTOTUNE", boolean, False, "search for the best configurations again"
)
