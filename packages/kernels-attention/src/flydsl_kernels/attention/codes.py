"""Stable error codes of this family, 940 to 969; `flydsl.diagnostics` explains the scheme.

Flash attention has 940 to 949, decoding 950 to 954, positions and caches the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-C940": "Attention does not take this element type.",
        "FLY-C941": "A head has a number of elements that the attention kernels do not take.",
        "FLY-C942": "Heads of q are no multiple of the heads of k and v.",
        "FLY-C943": "Keys cannot be divided into this many parts.",
        "FLY-C944": "Pages have a number of keys that the attention kernels do not take.",
        "FLY-C945": "Attention has no kernel for this architecture and element type.",
        "FLY-C946": "The architecture computes with the other flavour of 8-bit floats.",
        "FLY-C947": "Pages of this element type have no vectorised layout.",
        "FLY-C948": "Flash attention with these arguments has no gradient.",
        "FLY-U940": "An array cannot be repeated to the extents of the scores.",
        "FLY-U941": "Pages have no such layout, or there are no pages.",
        "FLY-U942": "Pages are given without the number of keys of each sequence.",
        "FLY-U943": "The scale of scores is not positive and finite.",
        "FLY-U944": "A window is no pair.",
        "FLY-U945": "Starts of packed sequences do not rise from 0 to the number of rows.",
        "FLY-U946": "An array has another number of axes than attention needs.",
        "FLY-U947": "Units are given for elements that are no 8-bit floats.",
        "FLY-U948": "Arguments of packed sequences exclude or lack each other.",
        "FLY-U949": "Lengths of sequences or their pages do not fit the keys.",
        "FLY-C950": "Decoding does not take this element type.",
        "FLY-C951": "Heads of this many elements are not decoded.",
        "FLY-C952": "Pages of this many tokens are not decoded.",
        "FLY-C953": "Caches of this layout are not decoded.",
        "FLY-C955": "There is no rotary embedding of this style.",
        "FLY-C956": "Heads of this many elements are not rotated.",
        "FLY-C957": "This many elements of a head cannot be rotated.",
        "FLY-C958": "Elements cannot share a scale in groups of this size.",
        "FLY-C959": "Queries and keys are not quantised to this element type.",
        "FLY-U955": "An array of heads has too few axes.",
        "FLY-U956": "An array of heads cannot be written in place.",
        "FLY-U957": "A table of cosines or sines has another shape than the rotation needs.",
        "FLY-U958": "The tables of a rotation have fewer positions than there are tokens.",
        "FLY-U959": "There is no cache layout of this name.",
        "FLY-U960": "A cache has another number of axes than its layout.",
        "FLY-U961": "A cache layout needs heads and pages of whole blocks of 16 bytes.",
        "FLY-U963": "An epsilon is negative, infinite or NaN.",
        "FLY-U962": "A scale of a cache is no finite positive number.",
        "FLY-U964": "A window or number of parts is out of range.",
        "FLY-U965": "Vectors of a cache, or an output, are not aligned or not contiguous.",
        "FLY-U966": "Heads of queries are no multiple of the heads of a cache.",
        "FLY-U967": "A cache has another shape than latent attention needs.",
        "FLY-U968": "A gradient is asked for that attention and rotations do not have.",
    }
)
