"""``flydsl.utils.env``: settings as attributes of groups, ``env.runtime.cache_dir``."""

from __future__ import annotations

from typing import Any

from flydsl.config import catalogue
from flydsl.errors import UserAttributeError

__all__ = ["autotune", "compile", "debug", "env", "runtime"]


class _Group:
    """The settings whose variables share a beginning."""

    __slots__ = ("_prefixes",)

    def __init__(self, *prefixes: str) -> None:
        self._prefixes = prefixes

    def __getattr__(self, name: str) -> Any:
        settings = catalogue()
        for prefix in self._prefixes:
            found = settings.get(prefix + name.upper())
            if found is not None:
                return found.get()
        raise UserAttributeError(
            "there is no such setting",
            code="FLY-U508",
            value=name,
            allowed=", ".join(
                key.removeprefix(prefix).lower()
                for prefix in self._prefixes
                for key in settings
                if prefix not in ("", "FLYDSL_") and key.startswith(prefix)
            ),
        )


compile = _Group("FLYDSL_COMPILE_", "FLYDSL_", "")  # noqa: A001 - the public name
debug = _Group("FLYDSL_DEBUG_", "FLYDSL_")
runtime = _Group("FLYDSL_RUNTIME_", "FLYDSL_")
autotune = _Group("FLYDSL_AUTOTUNE_", "FLYDSL_")


class _Environment:
    """All groups, for ``from flydsl.utils.env import env``."""

    __slots__ = ()
    compile = compile
    debug = debug
    runtime = runtime
    autotune = autotune


env = _Environment()
