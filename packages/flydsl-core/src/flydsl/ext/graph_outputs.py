"""Outputs of ready kernels in PyTorch's graphs.

The operators of the families return new tensors, as graphs need it. Where ``torch.compile`` or
``torch.export`` traces a call with `out`, the operator's result is copied there: the graph then
says what is written, and its compiler may leave the copy out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from flydsl.errors import UserTypeError
from flydsl.ext import arrays
from flydsl.ext.arguments import compiling

__all__ = ["outputs_in_graphs"]

P = ParamSpec("P")
R = TypeVar("R")


def outputs_in_graphs(
    *names: str, kind: str = "", adding: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function of arrays that has keyword arguments for where to put its results.

    Args:
        *names: These keywords, in the order of the results that they are for.
        kind: Keyword of the results' element type, which is that of an output if it is not given.
        adding: Keyword of a flag with which results are added to what the first output holds.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not compiling():
                return function(*args, **kwargs)
            found: R = _traced(function, args, kwargs)
            return found

        def _traced(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            if kwargs.get("stream") is not None:
                raise UserTypeError(
                    "a graph of PyTorch decides itself where it runs",
                    code="FLY-U547",
                    value=kwargs["stream"],
                    allowed="calls without stream= inside torch.compile and torch.export",
                )
            outputs = [kwargs.pop(name, None) for name in names]
            if kind and outputs[0] is not None and kwargs.get(kind) is None:
                kwargs[kind] = arrays.dtype_name(outputs[0])
            result = function(*args, **kwargs)
            if all(output is None for output in outputs):
                return result
            add = bool(adding) and bool(kwargs.get(adding))
            if isinstance(outputs[0], (tuple, list)):
                return _delivered(result, outputs[0], names[0], add)
            results = list(result) if isinstance(result, tuple) else [result]
            for at, (name, output) in enumerate(zip(names, outputs, strict=True)):
                if output is not None:
                    results[at] = _delivered(results[at], output, name, add)
            return tuple(results) if isinstance(result, tuple) else results[0]

        return call

    return decorate


def _delivered(result: Any, output: Any, name: str, add: bool) -> Any:
    """Put a result where the call wants it.

    Raises:
        UserTypeError: There are more or fewer outputs than results.
        UserValueError: It has another shape or element type.
    """
    if isinstance(result, tuple):
        if not isinstance(output, (tuple, list)) or len(output) != len(result):
            raise UserTypeError(
                f"{name} are as many arrays as there are results",
                code="FLY-U549",
                value=type(output).__name__,
                allowed=str(len(result)),
            )
        return tuple(
            _delivered(part, where, f"{name}[{at}]", add)
            for at, (part, where) in enumerate(zip(result, output, strict=True))
        )
    arrays.check_shape(output, result.shape, name)
    arrays.check_dtype(output, (arrays.dtype_name(result),), name)
    if add:
        output.add_(result)
    else:
        output.copy_(result)
    return output
