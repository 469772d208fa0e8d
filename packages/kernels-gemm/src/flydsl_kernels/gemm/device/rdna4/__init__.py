"""Products of 8-bit floats with preshuffled weights on RDNA4, without local data share.

`plan` has the numbers, `tile` what a wave does, `kernel` the kernel and the launcher of a plan,
`launch` the builder with the name and arguments that existing programs use.
"""

from __future__ import annotations

__all__ = ["kernel", "launch", "plan", "tile"]
