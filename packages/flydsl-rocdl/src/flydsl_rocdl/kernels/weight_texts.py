"""Preshuffled weights as arguments of PyTorch's operators, which take tensors and texts."""

from __future__ import annotations

from typing import Any, Final

from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = ["PARTS", "described_weight", "weight_of"]

PARTS: Final = 7
"""Parts of a description, with ``|`` between them; others may follow."""


def described_weight(weight: PreshuffledWeight) -> str:
    """Return what of weights is no tensor, as text that PyTorch's tracer can make."""
    n, k = int(weight.n), int(weight.k)
    batch = 0 if weight.batch is None else int(weight.batch)
    arch = "" if weight.arch is None else weight.arch
    return f"{weight.layout}|{weight.dtype}|{n}|{k}|{batch}|{weight.scale_layout}|{arch}"


def weight_of(text: str, data: Any, scales: Any = None) -> PreshuffledWeight:
    """Return the weights that `described_weight` was given.

    Args:
        text: The description, and what follows it.
        data: The rearranged array.
        scales: Its scales, if there are some.
    """
    layout, dtype, n, k, batch, scale_layout, arch = text.split("|")[:PARTS]
    return PreshuffledWeight(
        layout, dtype, int(n), int(k), data, int(batch) or None, scales, scale_layout, arch or None
    )
