"""Keeps PyTorch's graph capture (Dynamo) out of launches.

A launch packs addresses and calls native code, which cannot be captured, so that it ends the graph
before it. PyTorch is never imported for this: its capture can only be active once it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["CAPTURE", "capturing", "ends_graph", "run_eagerly"]

CAPTURE: Final = "torch._dynamo"
"""The module that is imported before anything is captured."""

_REASON: Final = (
    "FlyDSL compiles and launches it; register it with flydsl.ext.torch_ops.launcher_op to have it "
    "in a graph"
)

F = TypeVar("F", bound=Callable[..., Any])


def ends_graph(function: F) -> F:
    """Mark a function as one that is not captured, in the way ``torch.compiler.disable`` does.

    A call of it ends the graph, and with ``fullgraph=True`` is an error that says what to do.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = _REASON  # type: ignore[attr-defined]
    return function


class _Capture:
    """PyTorch's functions, once it is imported; no decorator, for capture would look into it."""

    active: Callable[[], object] | None = None
    suspended: Callable[..., Any]


@ends_graph
def capturing() -> bool:
    """Return whether code that runs on this thread now would be captured."""
    if CAPTURE not in sys.modules:
        return False
    if _Capture.active is None:
        _prepare()
    assert _Capture.active is not None
    return _Capture.active() is not None


@ends_graph
def run_eagerly(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with capture suspended, for it and for what it calls."""
    return _Capture.suspended(function, args, kwargs)


@ends_graph
def _prepare() -> None:
    from torch._C._dynamo.eval_frame import get_eval_frame_callback
    from torch._dynamo.eval_frame import skip_code

    dynamo: Any = sys.modules[CAPTURE]
    for function in (capturing, run_eagerly, _prepare):
        skip_code(function.__code__)
    _Capture.suspended = dynamo.disable(_call, reason=_REASON)
    _Capture.active = get_eval_frame_callback


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)
