"""``flydsl.compiler.backends``: targets by their older names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserRuntimeError
from flydsl.plugins.protocols import Target
from flydsl.targets import choose_target, create_target

__all__ = ["BaseBackend", "GPUTarget", "compile_backend_name", "get_backend", "register_backend"]

BaseBackend = Target


@dataclass(frozen=True, slots=True)
class GPUTarget:
    """An architecture by its facts.

    Attributes:
        backend: Name of the plugin that compiles for it.
        arch: Architecture.
        warp_size: Threads per warp.
    """

    backend: str
    arch: str
    warp_size: int


def get_backend(name: str | None = None, arch: str = "") -> Target:
    """Return the target of an architecture; default: the one compiled for.

    Raises:
        UserRuntimeError: It belongs to another backend than `name`.
    """
    target = create_target(arch) if arch else choose_target()
    if name is not None and name not in (target.backend, "rocm"):
        raise UserRuntimeError(
            "the architecture belongs to another backend", code="FLY-U508", value=name,
            allowed=target.backend,
        )  # fmt: skip
    return target


def compile_backend_name() -> str:
    """Return the name of the backend that is compiled with."""
    return choose_target().backend


def register_backend(name: str, backend: Any, force: bool = False) -> None:
    """Refuse: a backend is a plugin.

    Raises:
        UserRuntimeError: Always; says what to write.
    """
    del backend, force
    raise UserRuntimeError(
        "backends are not registered by a call", code="FLY-U508", value=name,
        hint="implement flydsl_targets, flydsl_parse_target and flydsl_create_target in a plugin",
    )  # fmt: skip
