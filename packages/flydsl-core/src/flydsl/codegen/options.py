"""The LLVM command-line options that a compile may set.

LLVM accepts unknown option names silently and its options are global to a process, so only names
that are known to exist are passed on, each to a worker started for that set of options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from flydsl.errors import UserTypeError, UserValueError

__all__ = ["LLVM_OPTIONS", "OptionKind", "OptionValue", "Options", "checked_options"]

OptionKind: TypeAlias = Literal["bool", "int", "str"]
OptionValue: TypeAlias = bool | int | str
Options: TypeAlias = tuple[tuple[str, OptionValue], ...]

LLVM_OPTIONS: Mapping[str, OptionKind] = {
    "disable-lsr": "bool",
    "disable-machine-licm": "bool",
    "disable-machine-sink": "bool",
    "enable-ipra": "bool",
    "enable-misched": "bool",
    "enable-post-misched": "bool",
    "jump-threading-threshold": "int",
    "licm-mssa-optimization-cap": "int",
    "lsr-drop-solution": "bool",
    "misched": "str",
    "misched-cluster": "bool",
    "misched-postra": "bool",
    "post-RA-scheduler": "bool",
    "regalloc": "str",
    "rotation-max-header-size": "int",
    "unroll-count": "int",
    "unroll-max-count": "int",
    "unroll-runtime": "bool",
    "unroll-threshold": "int",
    "verify-machineinstrs": "bool",
}
"""Target-neutral options and the kind of value each takes. A target adds its own when it checks."""

_TYPES: Mapping[OptionKind, type] = {"bool": bool, "int": int, "str": str}


def checked_options(
    options: Mapping[str, object], extra: Mapping[str, OptionKind] | None = None
) -> Options:
    """Return `options` as the sorted pairs that a `CodegenRequest` takes.

    Args:
        options: Option name without dashes to its value.
        extra: Further names that the target allows, with their kinds.

    Raises:
        UserValueError: A name is not on the allow-list.
        UserTypeError: A value has another type than the option takes.
    """
    allowed = {**LLVM_OPTIONS, **(extra or {})}
    pairs: list[tuple[str, OptionValue]] = []
    for name, value in sorted(options.items()):
        kind = allowed.get(name)
        if kind is None:
            raise UserValueError(
                f"LLVM option {name!r} is not on the list of options that may be set",
                code="FLY-U490",
                value=name,
                allowed=", ".join(sorted(allowed)),
            )
        if type(value) is not _TYPES[kind]:
            raise UserTypeError(
                f"LLVM option {name!r} takes a value of type {kind}",
                code="FLY-U491",
                value=value,
                allowed=kind,
            )
        assert isinstance(value, bool | int | str)
        pairs.append((name, value))
    return tuple(pairs)
