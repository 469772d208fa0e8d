"""The alias table and the public paths (see the package's docstring)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

__all__ = ["ALIASES", "PUBLIC_PATHS", "available", "is_public"]

ALIASES: Mapping[str, str] = {
    "flydsl._mlir": "mlir",
    "flydsl.compiler.jit_argument": "flydsl.compiler.arguments",
    "flydsl.compiler.jit_function": "flydsl.frontend",
    "flydsl.compiler.kernel_function": "flydsl.frontend",
    "flydsl.expr.activation": "flydsl.ext.activation",
    "flydsl.expr.coop": "flydsl.ext.coop",
    "flydsl.expr.derived": "flydsl.expr",
    "flydsl.expr.math": "flydsl.expr.math_ops",
    "flydsl.expr.primitive": "flydsl.expr",
    "flydsl.expr.random": "flydsl.ext.philox",
    "flydsl.expr.typing": "flydsl.expr",
    "flydsl.expr.utils.arith": "flydsl.expr.arith",
    "flydsl.ext.random": "flydsl.ext.philox",
    "flydsl.extension.coop": "flydsl.ext.coop",
    "flydsl.extension.random": "flydsl.ext.philox",
}

PUBLIC_PATHS: tuple[str, ...] = (
    "flydsl._mlir",
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
