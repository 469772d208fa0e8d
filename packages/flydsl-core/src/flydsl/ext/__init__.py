"""Extensions of the core that programs import one by one.

* `coop`: reductions, scans and broadcasts of a warp or block (``fx.coop``).
* `philox`: random numbers from counters (``fx.random``, also ``flydsl.ext.random``).
* `activation`: sigmoid, SiLU, SwiGLU, GELU and their relatives.
* `arguments`: checks of the arguments of ready operations, for kernel families.
* `arrays`: NumPy arrays and PyTorch tensors through one set of functions, for kernel families.
* `torch_ops`: launchers and functions as operators of PyTorch, for ``torch.compile``, autograd and
  export. The only module of the core that imports torch.

An extension is a module here that imports the core's public interface and nothing imports back.
"""

from __future__ import annotations

__all__ = ["activation", "arguments", "arrays", "coop", "philox", "random", "torch_ops"]


def __getattr__(name: str) -> object:
    """Import an extension when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"{__name__}.{name}")
