"""Directions to the register allocator that no published LLVM has.

`sched_bank`, `sched_vgpr`, `sched_sgpr` and `sched_agpr` are hints of a patched LLVM. They exist so
that a kernel learns this where it calls one.
"""

from __future__ import annotations

from typing import Any, NoReturn

from flydsl.errors import TargetError

__all__ = ["sched_agpr", "sched_bank", "sched_sgpr", "sched_vgpr"]


def _missing(name: str) -> NoReturn:
    raise TargetError(
        f"LLVM 22.1 has no intrinsic for fx.rocdl.experimental.{name}", code="FLY-T644",
        value=name, hint="drop the call: it is only a hint",
    )  # fmt: skip


def sched_bank(_value: Any, _n: int, _soft: bool = False) -> NoReturn:
    """Raise: LLVM has no hint for a register bank."""
    _missing("sched_bank")


def sched_vgpr(_value: Any, _n: int, _soft: bool = False) -> NoReturn:
    """Raise: LLVM has no hint for a vector register."""
    _missing("sched_vgpr")


def sched_sgpr(_value: Any, _n: int, _soft: bool = False) -> NoReturn:
    """Raise: LLVM has no hint for a scalar register."""
    _missing("sched_sgpr")


def sched_agpr(_value: Any, _n: int, _soft: bool = False) -> NoReturn:
    """Raise: LLVM has no hint for an accumulation register."""
    _missing("sched_agpr")
