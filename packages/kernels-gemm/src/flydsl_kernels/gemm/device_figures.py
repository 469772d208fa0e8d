"""Figures of devices that times are predicted with, by architecture.

Compute units, clocks, memory bandwidth and dense rates are those of the data sheets of one product:
MI300X, MI355X, Radeon RX 7900 XTX, RX 9070 XT. Where no product is known, another one's stand in,
and `assumed` says so. Predictions order configurations; they are not measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["FIGURES", "DeviceFigures", "figures_of"]


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One product.

    Attributes:
        units: Compute units (of RDNA: those that share LDS in pairs count singly).
        clock: Hz.
        bandwidth: Bytes per second of device memory.
        simds: SIMDs of a compute unit.
        lds_bytes: Bytes of LDS per clock and compute unit.
        products: Products per clock and SIMD of 16-bit operands; twice for 8-bit ones.
        lanes: Lanes of a vector instruction that a SIMD does in a clock.
        dies: Dies that have an L2 each and are dealt workgroups in turn.
        launch: Seconds between two launches of one stream.
        assumed: Whether it stands in for an unknown product.
    """

    units: int
    clock: float
    bandwidth: float
    simds: int
    lds_bytes: int
    products: int
    lanes: int
    dies: int = 1
    launch: float = 4e-6
    assumed: bool = False


FIGURES: Mapping[str, DeviceFigures] = MappingProxyType(
    {
        "cdna3": DeviceFigures(304, 2.1e9, 5.3e12, 4, 128, 256, 16, dies=8),
        "cdna4": DeviceFigures(256, 2.4e9, 8e12, 4, 256, 512, 16, dies=8),
        "rdna3": DeviceFigures(96, 2.5e9, 0.96e12, 2, 128, 128, 32),
        "rdna4": DeviceFigures(64, 2.97e9, 0.64e12, 2, 128, 256, 32),
        "cdna5": DeviceFigures(256, 2.4e9, 8e12, 4, 256, 512, 32, assumed=True),
    }
)
"""By family of architectures."""


def figures_of(family: str) -> DeviceFigures:
    """Return the figures of a family, of `cdna5` where it is not known."""
    return FIGURES.get(family, FIGURES["cdna5"])
