"""Products with preshuffled weights: A through local data share, B straight to registers.

`plan` has the numbers, `operands` where everything lies, `tile` the interleaved body of one step,
`unpacking` weights of four bits, `setup` the loop, `results` what is stored; `launch` has the
kernel and the builders.
"""

from __future__ import annotations

__all__ = ["launch", "operands", "plan", "results", "setup", "tile", "unpacking"]
