"""Parts of kernels that several families need, written on ``fx`` and ``fx.rocdl``.

Kernel families import them; nothing of the target does. One module a part: `preshuffle` (weights
and scales in the order that lanes read), `pipelining` (loops whose loads run ahead), `scheduling`
(memory operations among matrix instructions), `swizzle` (rows in local data share without bank
conflicts), `row_exchange` (results as whole rows), `tile_order` (which workgroup takes which tile),
`epilogue` (from accumulators to results), `matrix_steps` (the instruction for 16-byte fragments),
`unpacking` (weights of four bits in registers), `weight_texts` (preshuffled weights as arguments of
PyTorch's operators), `word_buffers` (buffers with both of their offsets). To add one, write it on
the public API, list it here, and test it by running a kernel made of it in the emulator.
"""

from __future__ import annotations

__all__ = [
    "epilogue",
    "matrix_steps",
    "pipelining",
    "preshuffle",
    "row_exchange",
    "scheduling",
    "swizzle",
    "tile_order",
    "unpacking",
    "weight_texts",
    "word_buffers",
]
