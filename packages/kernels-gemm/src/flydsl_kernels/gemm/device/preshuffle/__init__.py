"""Products with preshuffled weights: A through local data share, B straight to registers.

`plan` has the numbers, `operands` where everything lies, `tile` the interleaved body of one step,
`setup` the loop, `results` what is stored; `kernel` has the
kernel, `batches` the one for batches and distances, `checked` what a call is checked for, `launch`
the builders.
"""

from __future__ import annotations

__all__ = [
    "batches",
    "checked",
    "kernel",
    "launch",
    "operands",
    "plan",
    "results",
    "setup",
    "tile",
]
