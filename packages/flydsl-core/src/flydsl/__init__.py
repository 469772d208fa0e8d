"""FlyDSL: a Python DSL and MLIR compiler for GPU kernels with an explicit layout algebra.

Kernels are written against `flydsl.expr` (``fx``) and `flydsl.compiler` (``flyc``). Importing this
package only makes the plugin namespaces and alias paths importable (`flydsl.plugins.namespaces`).
"""

from __future__ import annotations

from flydsl.plugins import namespaces as _namespaces

__all__ = ["__version__"]

__version__ = "0.1.0"

_namespaces.install()
