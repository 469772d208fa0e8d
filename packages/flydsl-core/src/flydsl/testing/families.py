"""What tests of families of ready kernels share: what they announce, and how they take mistakes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from flydsl.errors import FlyDSLError
from flydsl.plugins.manager import load_dotted, plugin_manager

__all__ = ["check_announced", "check_light_import", "check_refusals", "wrong_values"]

_HEAVY = ("torch", "numpy", "mlir", "llvmlite", "flydsl.compiler")


def check_announced(family: str, package: ModuleType) -> set[str]:
    """Check that what a family announces is public in its package, and return the names.

    Raises:
        AssertionError: Something is not, or has no summary.
    """
    found = plugin_manager().announced.kernels
    ours = [entry for entry in found.values() if entry.family == family]
    names = {entry.name for entry in ours}
    missing = names - set(package.__all__)
    if missing:
        raise AssertionError(f"{family} announces what is not public: {sorted(missing)}")
    for entry in ours:
        if load_dotted(entry.function) is not getattr(package, entry.name) or not entry.summary:
            raise AssertionError(f"{entry.function} is not {entry.name}, or has no summary")
    return names


def check_light_import(package: ModuleType) -> None:
    """Check that a family's package and its registry import no compiler and no array library.

    Raises:
        AssertionError: They do.
    """
    code = (
        f"import sys, {package.__name__}, {package.__name__}.registry;"
        f"print(sorted(set({_HEAVY!r}) & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if out != "[]":
        raise AssertionError(f"importing {package.__name__} imports {out}")


def wrong_values() -> Iterator[Any]:
    """Yield values that hardly any argument takes: of other kinds, shapes, types and memory."""
    np: Any = importlib.import_module("numpy")
    halves = np.ones((4, 64), np.float16)
    yield from (None, "a", b"a", [1.0], (1, 2, 3), {}, object(), 2.5, -1, True, 10**30)
    yield from (10**400, float("nan"), np.float32(2), np.int64(3))
    yield from (halves[0, 0].reshape(()), halves[0, :3], halves[:0, :0], halves[None, :2, :3])
    yield from (halves.astype(np.complex64), np.array([object()]), np.array(["a"]))
    yield from (np.ones(5, bool), np.ma.masked_array(halves), halves.astype(">f2"))
    torch = sys.modules.get("torch")
    if torch is not None:
        yield from (torch.ones(3), torch.ones(4, 64).to_sparse(), torch.ones(4, device="meta"))


def check_refusals(function: Callable[..., Any], **good: Any) -> int:
    """Call a function with each argument replaced by each of `wrong_values`.

    A call may succeed where the value happens to be right; else it has to raise a `FlyDSLError`.

    Args:
        function: What is called.
        **good: Arguments with which it succeeds.

    Returns:
        How many calls were refused.

    Raises:
        AssertionError: A call raised something else, or an error without a code.
    """
    function(**good)
    refused = 0
    for name in good:
        for value in wrong_values():
            try:
                function(**{**good, name: value})
            except FlyDSLError as error:
                refused += 1
                if f"[{error.code}]" not in str(error) or not error.code.startswith("FLY-"):
                    raise AssertionError(f"an error about {name} has no code: {error}") from error
            except Exception as error:
                raise AssertionError(
                    f"{function.__name__}({name}={value!r}) raised {type(error).__name__}: {error}"
                ) from error
    return refused
