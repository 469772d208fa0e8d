"""Settings of the emulator."""

from __future__ import annotations

from flydsl.config import Setting, parsers, setting

__all__ = ["DEVICES", "SANITIZE", "SANITIZE_ACTION", "STEP_LIMIT"]

STEP_LIMIT: Setting[int] = setting(
    "FLYDSL_EMU_STEP_LIMIT",
    parsers.integer(1),
    20_000_000_000,
    "wave-instructions that one emulated launch may execute",
)
DEVICES: Setting[int] = setting(
    "FLYDSL_EMU_DEVICES", parsers.integer(1, 64), 1, "number of emulated devices"
)
SANITIZE: Setting[tuple[str, ...]] = setting(
    "FLYDSL_SANITIZE",
    parsers.names,
    (),
    "checks of emulated launches: all, or some of wait, race, init, oob, barrier",
)
SANITIZE_ACTION: Setting[str] = setting(
    "FLYDSL_SANITIZE_ACTION",
    parsers.choice("raise", "warn"),
    "raise",
    "what findings of FLYDSL_SANITIZE do at the launch",
)
