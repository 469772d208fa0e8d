"""Parts of kernels that several families need, written on ``fx`` and ``fx.rocdl``.

Kernel families import them; nothing of the target does. One module a part: to add one, write it on
the public API, list it here, and test it by running a kernel made of it in the emulator.
"""

from __future__ import annotations

__all__: list[str] = []
