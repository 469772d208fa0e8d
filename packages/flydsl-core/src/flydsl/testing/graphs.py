"""What tests of families of ready kernels share: their functions in PyTorch's graphs."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["check_graphs"]


def check_graphs(function: Callable[..., Any], **given: Any) -> None:
    """Check that a call in a graph gives the bits that it gives outside, without a graph break.

    It is exported and compiled for the numbers and extents at hand without its outputs, the
    arguments that begin or end with ``out``, and compiled with all for ones that may change.

    Args:
        function: What is called.
        **given: Its arguments; arrays of NumPy become tensors.

    Raises:
        AssertionError: A result differs, in its type, shape, strides or bits.
        torch._dynamo.exc.Unsupported: The function cannot be captured as a whole.
    """
    tensors = _converted(given)
    new = {k: v for k, v in tensors.items() if not (k.startswith("out") or k.endswith("_out"))}
    new |= {"out_dtype": tensors["out_dtype"]} if "out_dtype" in tensors else {}
    torch: Any = importlib.import_module("torch")
    for dynamic, arguments in ((False, new), (True, tensors)):
        expected = _flat((function(**_cloned(arguments)),))
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        found = _flat((compiled(**_cloned(arguments)),))
        _compare(found, expected, f"{function.__name__}, compiled (dynamic: {dynamic})")
        if arguments is new:
            exported = _exported(function, arguments)
            _compare(exported, expected, f"{function.__name__}, exported")


def _converted(value: Any) -> Any:
    """Return arguments with tensors for arrays, inside of tuples and data classes too."""
    torch: Any = importlib.import_module("torch")
    numpy: Any = importlib.import_module("numpy")
    if isinstance(value, numpy.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {name: _converted(held) for name, held in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_converted, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        other = {name: _converted(x) for name, x in held.items()}
        changed = {name: x for name, x in other.items() if x is not held[name]}
        return dataclasses.replace(value, **changed) if changed else value
    return value


def _cloned(arguments: Mapping[str, Any]) -> dict[str, Any]:
    def one(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(one, value))
        return value.clone() if hasattr(value, "clone") else value

    return {name: one(value) for name, value in arguments.items()}


def _exported(function: Callable[..., Any], arguments: Mapping[str, Any]) -> list[Any]:
    torch: Any = importlib.import_module("torch")
    tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)}
    others = {k: v for k, v in arguments.items() if k not in tensors}

    class Program(torch.nn.Module):  # type: ignore[misc]
        def forward(self, **given: Any) -> list[Any]:
            return _flat((function(**_cloned(others), **given),))

    exported = torch.export.export(Program(), (), _cloned(tensors), strict=False)
    return list(exported.module()(**_cloned(tensors)))


def _flat(result: Any) -> list[Any]:
    """Return the tensors of a result."""
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _flat(part)]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return _flat([getattr(result, field.name) for field in dataclasses.fields(result)])
    return [result] if hasattr(result, "data_ptr") else []


def _compare(found: list[Any], expected: list[Any], what: str) -> None:
    if len(found) != len(expected) or not found:
        raise AssertionError(f"{what}: {len(found)} results, not {len(expected)}")
    torch: Any = importlib.import_module("torch")
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        kinds = [(t.dtype, tuple(t.shape), t.stride()) for t in (one, other)]
        if kinds[0] != kinds[1]:
            raise AssertionError(f"{what}: result {number} is {kinds[0]}, not {kinds[1]}")
        bits = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
        if not torch.equal(*bits):
            raise AssertionError(f"{what}: result {number} differs")
