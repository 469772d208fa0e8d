"""Kernel bodies, on the neutral `fx` interface only.

Modules: `rows` (a thread's share of a row: loads and stores), `combine` (values of all threads of a
row), `moments` (mean and scale of a row), `forward` and `long_forward` (normalisation of rows in
registers and in a loop), `softmax` and `long_softmax`, `backward` and `softmax_backward` (gradients
of the rows), `columns` (gradients of weights: sums over the rows). To add an operation, write a
kernel and its launcher in a module here and a function in `flydsl_kernels.norm.ops`.
"""

from __future__ import annotations

__all__: list[str] = []
