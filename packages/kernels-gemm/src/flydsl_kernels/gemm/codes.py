"""Stable error codes of this family, 910 to 939; `flydsl.diagnostics` explains the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-C910": "An extent of a matrix product is negative or does not fit 31 bits.",
        "FLY-C911": "A property of an operand has no such value.",
        "FLY-C912": "A matrix product has no such activation or layout.",
        "FLY-C913": "Scales of the two operands do not go together.",
        "FLY-C914": "K is no multiple of the block that shares a scale.",
        "FLY-C915": "Matrix products do not take these element types.",
        "FLY-C916": "The element type of the result does not fit the operation.",
        "FLY-C917": "Products with preshuffled weights have no such types or options.",
        "FLY-C918": "Grouped products are not split along K, and have no such option.",
        "FLY-C920": "The tile or the waves of a configuration have no such extents.",
        "FLY-C921": "The tile along k of a configuration has no such extent.",
        "FLY-C922": "The threads of a configuration do not cover an operand's tile.",
        "FLY-C923": "A configuration needs more LDS than there is.",
        "FLY-C924": "A configuration needs more registers than there are.",
        "FLY-C925": "A tile of a configuration spans more than 2 GiB.",
        "FLY-C926": "A tile of a configuration has more than one scale.",
        "FLY-C927": "A configuration asks for what the architecture or the operands do not have.",
        "FLY-T910": "The architecture multiplies no such element types.",
        "FLY-U910": "An argument is no target.",
        "FLY-U911": "An argument of a matrix product has another shape than the operation needs.",
        "FLY-U912": "An output cannot be written in place.",
        "FLY-U913": "Arguments of a matrix product do not go together.",
        "FLY-U914": "A gradient is asked for that matrix products do not have.",
        "FLY-C930": "A product with preshuffled weights cannot have this configuration.",
        "FLY-C931": "Tiles of a product with preshuffled weights do not fit the LDS.",
        "FLY-C932": "The architecture does not load 16 bytes of a lane into LDS.",
    }
)
