"""Commands that the emulator adds to ``flydsl``.

One module per command with ``add(subparsers)``; `flydsl_emu.plugin` lists them.
"""

from __future__ import annotations

__all__: list[str] = []
