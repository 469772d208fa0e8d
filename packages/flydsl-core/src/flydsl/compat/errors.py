"""``flydsl.compiler.diagnostics``: errors by their older name."""

from __future__ import annotations

from flydsl.errors import FlyDSLError, SourceLocation

__all__ = ["DSLCompileError", "SourceLocation"]

DSLCompileError = FlyDSLError
"""Every error of a program, target or of the compiler itself."""
