"""Descriptors of the tensor data mover (TDM), and clusters: facts and packing.

A transfer's descriptor has up to five groups of words in scalar registers: group 0 (4 words) says
where, group 1 (8 words) what the first three dimensions are, groups 2 and 3 (4 words each) the
others, or which rows to gather. `FIELDS` says where each value sits.

Sources: the descriptors of AMD's open kernel libraries (composable_kernel's tensor descriptor
structures: names, bits, encodings of pads) and LLVM 22's AMDGPU dialect (the same layout from
``amdgpu.make_dma_descriptor``). The emulator decodes the words on its own; tests run both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = [
    "EXTENTS",
    "FIELDS",
    "GATHERED",
    "GROUPS",
    "LARGEST_CLUSTER",
    "LARGEST_PAD",
    "SIZES",
    "STRIDES",
    "TENSOR_TYPE",
    "Field",
    "pad_codes",
]

LARGEST_CLUSTER = 16
"""Workgroups; a cluster's masks have one bit each."""
GROUPS = (4, 8, 4, 4)
"""Words of each group."""
TENSOR_TYPE = 2
"""Value of ``type`` in every descriptor."""
LARGEST_PAD = 128
"""Dwords."""
GATHERED = MappingProxyType({16: 16, 32: 8})
"""Rows of one gathering transfer by the bits of a row number."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value sits in a descriptor.

    Attributes:
        group: Number of the group.
        bit: First bit, counted from the group's first word.
        width: Bits; a field may cross words.
    """

    group: int
    bit: int
    width: int


FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "valid": Field(0, 0, 2),
        "wide_rows": Field(0, 30, 1),
        "gather": Field(0, 31, 1),
        "lds_address": Field(0, 32, 32),
        "address": Field(0, 64, 57),
        "type": Field(0, 126, 2),
        "workgroup_mask": Field(1, 0, 16),
        "element": Field(1, 16, 2),
        "barrier": Field(1, 18, 1),
        "iterate": Field(1, 19, 1),
        "pad": Field(1, 20, 1),
        "early_timeout": Field(1, 21, 1),
        "pad_interval": Field(1, 22, 3),
        "pad_amount": Field(1, 25, 7),
        "barrier_address": Field(1, 32, 16),
        "extent0": Field(1, 48, 32),
        "extent1": Field(1, 80, 32),
        "size0": Field(1, 112, 16),
        "size1": Field(1, 128, 16),
        "size2": Field(1, 144, 16),
        "stride1": Field(1, 160, 48),
        "stride2": Field(1, 208, 48),
        "extent2": Field(2, 0, 32),
        "extent3": Field(2, 32, 32),
        "stride3": Field(2, 64, 48),
        "size3": Field(2, 112, 16),
        "stride4": Field(3, 0, 48),
        "extent4": Field(3, 48, 32),
        "size4": Field(3, 80, 16),
    }
)
"""Fields by name; dimension 0 is the one whose elements are neighbours in memory.

``element`` is log2 of its bytes; ``pad_interval`` log2 of the dwords between pads, less 1;
``pad_amount`` the dwords of a pad, less 1; ``barrier_address`` an LDS byte address divided by 8.
"""

EXTENTS = ("extent0", "extent1", "extent2", "extent3", "extent4")
SIZES = ("size0", "size1", "size2", "size3", "size4")
STRIDES = ("stride1", "stride2", "stride3", "stride4")


def pad_codes(interval: int, amount: int) -> tuple[int, int] | None:
    """Return the codes of pads of `amount` bytes after each `interval` bytes.

    Returns:
        ``(pad_interval, pad_amount)``, or None when the hardware has no such pads: the interval is
        a power of two from 2 to 256 dwords, the amount 1 to 128 dwords.
    """
    dwords, rest = divmod(interval, 4)
    extra, remainder = divmod(amount, 4)
    if rest or remainder or not 2 <= dwords <= 256 or dwords & (dwords - 1):
        return None
    if not 1 <= extra <= LARGEST_PAD:
        return None
    return dwords.bit_length() - 2, extra - 1
