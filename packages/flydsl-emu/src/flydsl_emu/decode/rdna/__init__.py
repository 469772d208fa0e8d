"""Encodings of gfx11 and later (RDNA and gfx1250), decoded by shared operand tables.

`layout` says where fields are, `operands` maps field contents to operands, `forms` joins both with
the decode table of an architecture, and one module for each group of encodings does the rest.
"""

from __future__ import annotations

from flydsl_emu.decode.rdna.decoder import decoder_of

__all__ = ["decoder_of"]
