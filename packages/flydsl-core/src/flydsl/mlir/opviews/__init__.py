"""Where the bindings look for operation classes of our dialects; there are none on purpose.

The bindings import ``<prefix>.<dialect>`` whenever they wrap an operation, and search the whole
path again each time that fails (30 µs an operation). `mark` puts an empty module there for each
dialect that `flydsl.mlir` loads, so its operations come back as plain ``OpView`` at once.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["mark"]


def mark(dialect: str) -> None:
    """Tell the bindings that `dialect` has no operation classes."""
    name = f"{__name__}.{dialect}"
    sys.modules.setdefault(name, ModuleType(name, f"Operation classes of {dialect}: none."))
