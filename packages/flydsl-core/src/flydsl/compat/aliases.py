"""The alias table and the public paths (see the package's docstring)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from flydsl.compat.notices import legacy

__all__ = [
    "ALIASES",
    "LEGACY_PATHS",
    "PUBLIC_PATHS",
    "available",
    "is_public",
    "target_of",
    "warn_of_path",
]

ALIASES: Mapping[str, str] = {
    "flydsl._mlir": "mlir",
    "flydsl._mlir.dialects": "flydsl.compat.dialects",
    "flydsl.compiler.ast_rewriter": "flydsl.frontend.rewriter",
    "flydsl.compiler.backends": "flydsl.compat.backends",
    "flydsl.compiler.diagnostics": "flydsl.compat.errors",
    "flydsl.compiler.jit_argument": "flydsl.compiler.arguments",
    "flydsl.compiler.jit_function": "flydsl.frontend",
    "flydsl.compiler.kernel_function": "flydsl.frontend",
    "flydsl.compiler.llvm_options": "flydsl.codegen.options",
    "flydsl.compiler.protocol": "flydsl.compat.protocol",
    "flydsl.expr.activation": "flydsl.ext.activation",
    "flydsl.expr.coop": "flydsl.ext.coop",
    "flydsl.expr.derived": "flydsl.expr",
    "flydsl.expr.math": "flydsl.expr.math_ops",
    "flydsl.expr.meta": "flydsl.compat.meta",
    "flydsl.expr.primitive": "flydsl.expr",
    "flydsl.expr.random": "flydsl.ext.philox",
    "flydsl.expr.struct": "flydsl.expr",
    "flydsl.expr.typing": "flydsl.expr",
    "flydsl.expr.utils.arith": "flydsl.expr.arith",
    "flydsl.ext.random": "flydsl.ext.philox",
    "flydsl.extension.coop": "flydsl.ext.coop",
    "flydsl.extension.random": "flydsl.ext.philox",
    "flydsl.runtime.device": "flydsl.compat.device",
    "flydsl.utils.env": "flydsl.compat.environment",
    "flydsl.utils.smem_allocator": "flydsl.compat.shared_memory",
}

_DIALECTS = "flydsl._mlir.dialects."

LEGACY_PATHS: Mapping[str, str] = {
    "flydsl._mlir": "the operations of flydsl.expr (if, for and range instead of scf)",
    "flydsl.compiler.ast_rewriter": "@flyc.jit and @flyc.kernel, which rewrite by themselves",
    "flydsl.compiler.backends": "flydsl.targets",
    "flydsl.compiler.llvm_options": 'flyc.compile[{"llvm_options": {...}}]',
    "flydsl.expr.meta": "plain functions: operations know their place in the source",
    "flydsl.expr.utils.arith": "flydsl.expr",
    "flydsl.utils.env": "flydsl.config",
    "flydsl.utils.smem_allocator": "fx.SharedAllocator",
}
"""Aliases that are kept for existing kernels only, and what to use instead."""

PUBLIC_PATHS: tuple[str, ...] = (
    "flydsl._mlir",
    "flydsl._mlir.dialects",
    "flydsl.autotune",
    "flydsl.compiler.ast_rewriter",
    "flydsl.compiler.backends",
    "flydsl.compiler.diagnostics",
    "flydsl.compiler.extern_link",
    "flydsl.compiler.jit_argument",
    "flydsl.compiler.jit_function",
    "flydsl.compiler.kernel_function",
    "flydsl.compiler.llvm_options",
    "flydsl.compiler.protocol",
    "flydsl.expr.activation",
    "flydsl.expr.arith",
    "flydsl.expr.coop",
    "flydsl.expr.derived",
    "flydsl.expr.extern",
    "flydsl.expr.gpu",
    "flydsl.expr.math",
    "flydsl.expr.meta",
    "flydsl.expr.numeric",
    "flydsl.expr.primitive",
    "flydsl.expr.random",
    "flydsl.expr.struct",
    "flydsl.expr.typing",
    "flydsl.expr.utils.arith",
    "flydsl.expr.vector",
    "flydsl.ext.random",
    "flydsl.extension.coop",
    "flydsl.extension.random",
    "flydsl.runtime.device",
    "flydsl.utils.env",
    "flydsl.utils.smem_allocator",
)
"""Paths that kernels written for the public API import from."""


def is_public(name: str) -> bool:
    """Return whether `name` is a public path or a package above one."""
    return any((path + ".").startswith(name + ".") for path in PUBLIC_PATHS)


def target_of(path: str) -> str | None:
    """Return the module that a path stands for by the table, or None."""
    found = ALIASES.get(path)
    if found is None and path.startswith(_DIALECTS):
        name = path.removeprefix(_DIALECTS)
        return "flydsl.dialects.fly" if name == "fly" else f"mlir.dialects.{name}"
    return found


def warn_of_path(path: str) -> None:
    """Warn if `path` is kept for existing kernels only."""
    instead = LEGACY_PATHS.get(path)
    if instead is not None:
        legacy(path, instead)


def available(name: str) -> list[str]:
    """Return the modules and aliases beside `name`, sorted; empty if its parent is not there."""
    parent = name.rpartition(".")[0]
    try:
        folders = list(importlib.import_module(parent).__path__)
    except ImportError:
        folders = []
    modules = {f"{parent}.{info.name}" for info in pkgutil.iter_modules(folders)}
    depth = parent.count(".") + 2
    aliases = {
        ".".join(alias.split(".")[:depth]) for alias in ALIASES if alias.startswith(parent + ".")
    }
    return sorted(found for found in modules | aliases if not found.startswith(f"{parent}._"))
