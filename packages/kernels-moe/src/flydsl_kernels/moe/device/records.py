"""Structs that the grouped products take as arguments."""

from __future__ import annotations

import flydsl.expr as fx

__all__ = ["Operands", "Order", "Sizes"]


@fx.struct
class Operands(fx.Struct):
    """What a grouped product reads and writes.

    Attributes:
        x: Activations as bytes.
        w: Preshuffled weights as bytes.
        a: Scales of the activations.
        b: Scales of the weights.
        y: The result.
    """

    x: fx.Tensor
    w: fx.Tensor
    a: fx.Tensor
    b: fx.Tensor
    y: fx.Tensor


@fx.struct
class Order(fx.Struct):
    """The sorted order; see `flydsl_kernels.moe.Sorting`.

    Attributes:
        ids: Packed id of each entry.
        weights: Weight of each entry.
        experts: Expert of each block of entries.
        valid: Number of entries.
    """

    ids: fx.Tensor
    weights: fx.Tensor
    experts: fx.Tensor
    valid: fx.Tensor


@fx.struct
class Sizes(fx.Struct):
    """Run-time extents of a grouped product.

    Attributes:
        tokens: Number of tokens.
        slots: Experts per token.
        experts: Number of experts here.
        steps: Steps along K.
        row_bytes: Bytes of a row of activations.
        a_bytes: Bytes of all activations, below 2^32.
        channels: Channels of the result.
        half_blocks: Blocks of 16 rows of weights of the gates.
        block_bytes: Bytes of 16 rows of weights.
        expert_bytes: Bytes of an expert's weights, below 2^32.
        scale_pitch: Bytes from one block of scales of an expert's weights to the next.
        expert_scales: Scales of an expert's weights.
        expert_scale_bytes: Their bytes.
        a_scale_pitch: Bytes of the scales of a row of activations.
        a_scale_bytes: Bytes of all of them.
    """

    tokens: fx.Int32
    slots: fx.Int32
    experts: fx.Int32
    steps: fx.Int32
    row_bytes: fx.Int32
    a_bytes: fx.Int64
    channels: fx.Int32
    half_blocks: fx.Int32
    block_bytes: fx.Int32
    expert_bytes: fx.Int64
    scale_pitch: fx.Int32
    expert_scales: fx.Int64
    expert_scale_bytes: fx.Int64
    a_scale_pitch: fx.Int32
    a_scale_bytes: fx.Int64
