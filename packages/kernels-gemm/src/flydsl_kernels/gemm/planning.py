"""Lists the legal configurations of a product with predictions, best first: `plan_gemm`.

A step along k costs a compute unit the largest of: the matrix instructions at the data sheet's
rate, LDS reads and writes at its width, and loads at 64 bytes a clock, for all workgroups that it
holds together; and never less than a load takes. To this come what nothing hides (filling the
pipeline, a second launch where K is split), and the device's memory bandwidth as another limit. It
is a model that orders configurations, not a measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError, UserTypeError
from flydsl.ext.arguments import as_integer, check_instance
from flydsl_kernels.gemm.device_figures import DeviceFigures, figures_of
from flydsl_kernels.gemm.formats import FORMATS, OUTPUTS
from flydsl_kernels.gemm.instruction import PIECE, MatrixCore, core_for
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_kernels.gemm.problem import GemmProblem
from flydsl_kernels.gemm.rules import broken_rules, lds_bytes, registers
from flydsl_kernels.gemm.shared import WAVE_ORDER, shared_configs, shared_needs, shared_rules
from flydsl_rocdl.arch import ArchFacts, lookup
from flydsl_rocdl.arch.occupancy import waves_by_lds, waves_by_vgpr

if TYPE_CHECKING:
    from flydsl.targets import Target

__all__ = ["TILES", "WEIGHT_TILES", "Candidate", "GemmChoice", "facts_of", "plan_gemm"]

__flydsl_internal__ = True  # errors are at the line of the caller

TILES = (
    (16, 64, 1, 4),
    (16, 128, 1, 4),
    (32, 64, 1, 4),
    (32, 128, 1, 4),
    (64, 64, 2, 2),
    (64, 128, 2, 2),
    (128, 64, 2, 2),
    (128, 128, 2, 2),
    (128, 256, 2, 4),
    (256, 128, 4, 2),
    (256, 256, 4, 2),
)
"""Shipped tiles: rows, columns, waves along M, waves along N."""

WEIGHT_TILES = (
    *TILES,
    (64, 64, 1, 4),
    (64, 128, 1, 4),
    (64, 256, 1, 4),
    (128, 64, 1, 4),
    (128, 128, 1, 4),
    (128, 256, 1, 8),
)
"""The same for preshuffled weights, which every wave along M loads, and unpacks, again."""

_ROWS = (128, 64, 256)
"""Bytes of a tile's row along k, the usual ones first."""
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_LATENCY = 0.7e-6
"""Seconds that a load from memory takes; assumed."""
_FILL = 2 * _LATENCY
"""From a workgroup's start until its first product: two round trips to memory."""
_ALONE = 0.3
"""Share of a step that nothing overlaps when a SIMD has a single wave; assumed."""
_CACHE_BYTES = 64
"""Bytes per clock that a compute unit loads; public for CDNA3 and RDNA3."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal configuration and what is expected of it.

    Attributes:
        config: The configuration.
        lds_bytes: Bytes of LDS of a workgroup.
        registers: Estimated vector registers of a lane.
        waves_per_simd: Waves that a SIMD holds.
        workgroups: Workgroups of the launch.
        seconds: Predicted time, second launch included.
        roofline: The device's limit for the problem, in seconds: products and bytes at full rate.
        bound: What limits it: ``products``, ``lds``, ``loads``, ``latency`` or ``memory``.
    """

    config: GemmConfig
    lds_bytes: int
    registers: int
    waves_per_simd: int
    workgroups: int
    seconds: float
    roofline: float
    bound: str


@dataclass(frozen=True, slots=True)
class GemmChoice:
    """What `plan_gemm` found.

    Attributes:
        problem: The problem.
        arch: The architecture's name.
        candidates: Legal configurations, the shortest predicted time first.
    """

    problem: GemmProblem
    arch: str
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate:
        """The configuration that is used without tuning."""
        return self.candidates[0]

    def __str__(self) -> str:
        head = "tile (m, n, k)   waves  split  LDS B  VGPR  waves/SIMD  groups  predicted us  bound"
        lines = [head]
        for item in self.candidates:
            c = item.config
            tile = f"{c.tile_m} x {c.tile_n} x {c.tile_k}"
            lines.append(
                f"{tile:16} {c.waves_m} x {c.waves_n} {c.split_k:6} {item.lds_bytes:6} "
                f"{item.registers:5} {item.waves_per_simd:11} {item.workgroups:7} "
                f"{item.seconds * 1e6:13.2f}  {item.bound}"
            )
        return "\n".join(lines)


def facts_of(target: Target | str) -> ArchFacts:
    """Return the facts of a target, or of an architecture's name.

    Raises:
        TargetError: It is unknown, or no AMD target.
        UserTypeError: It is neither.
    """
    if isinstance(target, str):
        return lookup(target.split(":", maxsplit=1)[0])
    arch = getattr(target, "arch", None)
    if not isinstance(arch, str):
        raise UserTypeError(
            "a target, or the name of an architecture, is needed", code="FLY-U910",
            value=type(target).__name__,
        )  # fmt: skip
    return lookup(arch)


@at_user_line()
def plan_gemm(
    problem: GemmProblem, target: Target | str, *, split_k: int | None = None
) -> GemmChoice:
    """List the legal configurations of a product, the best guess first.

    Args:
        problem: The product.
        target: A target, or an architecture's name such as ``"gfx942"``.
        split_k: Only configurations that split K into so many parts; None: any.

    Raises:
        TargetError: The architecture multiplies no such types.
        ConfigError: No configuration is legal.
        UserTypeError: An argument is of another kind.
    """
    check_instance(problem, GemmProblem, "problem")
    parts = None if split_k is None else as_integer(split_k, "split_k")
    return _choice(problem, facts_of(target).name, parts)


@lru_cache(maxsize=4096)
def _choice(problem: GemmProblem, arch: str, split_k: int | None) -> GemmChoice:
    facts = lookup(arch)
    core = None if problem.shared else core_for(facts, *problem.multiplied)
    found = []
    first = None
    for config in _configs(problem, facts, split_k):
        rules = (
            shared_rules(problem, facts, config)
            if core is None
            else broken_rules(problem, facts, core, config)
        )
        broken = next(rules, None)
        if broken is None:
            found.append(_predicted(problem, facts, core, config))
        else:
            first = first or broken
    if not found:
        assert first is not None
        raise ConfigError(
            f"no configuration is legal; the first one breaks: {first.rule}", code=first.code,
            value=first.value, allowed=first.allowed,
        )  # fmt: skip
    # Of equals, loads into LDS need fewer registers and instructions.
    found.sort(key=lambda item: (item.seconds, not item.config.direct))
    return GemmChoice(problem, arch, tuple(found))


def _configs(problem: GemmProblem, facts: ArchFacts, split_k: int | None) -> Iterator[GemmConfig]:
    if problem.shared:
        yield from _split(problem, shared_configs(problem, facts), split_k)
        return
    size = FORMATS[problem.dtype].bytes
    for tile_m, tile_n, waves_m, waves_n in WEIGHT_TILES if problem.b.order else TILES:
        for row in _ROWS:
            plain = GemmConfig(tile_m, tile_n, row // size, waves_m, waves_n)
            steps = -(-problem.k // plain.tile_k)
            for config in _split(problem, (plain,), split_k):
                yield config
                if PIECE in facts.lds_dma_bytes or "tdm" in facts.has:
                    yield replace(config, direct=True)
            units = figures_of(facts.family).units
            tiles = _tiles(problem, plain)
            if split_k is None and 1 < tiles < units and units % tiles and steps > 1:
                yield replace(plain, streams=units)


def _split(
    problem: GemmProblem, configs: Iterable[GemmConfig], split_k: int | None
) -> Iterator[GemmConfig]:
    """Yield configurations with K in one part and in several, or as asked for."""
    for config in configs:
        steps = -(-problem.k // config.tile_k)
        for split in _SPLITS if split_k is None else (split_k,):
            if split_k is not None or split == 1 or split <= steps // 2:
                yield replace(config, split_k=split)


def _predicted(
    problem: GemmProblem, facts: ArchFacts, core: MatrixCore | None, config: GemmConfig
) -> Candidate:
    device = figures_of(facts.family)
    if core is None:
        lds, vgprs = shared_needs(problem, facts, config)
    else:
        lds, vgprs = lds_bytes(problem, facts, config), registers(problem, core, config)
    threads = config.waves * facts.wave_size
    waves = min(waves_by_vgpr(facts, vgprs), waves_by_lds(facts, lds, threads))
    resident = max(1, waves * device.simds // config.waves)
    tiles = _tiles(problem, config)
    groups = config.streams or max(1, tiles * config.split_k)
    steps = -(-problem.k // (config.tile_k * config.split_k))
    if config.streams:
        steps = -(-tiles * -(-problem.k // config.tile_k) // config.streams)
    work, bound = _step_seconds(problem, device, config)
    each = -(-groups // device.units)
    together = min(resident, each)
    per_simd = max(1.0, together * config.waves / device.simds)
    # Loads through registers run one step further ahead than loads into LDS.
    latency = _LATENCY if config.direct else _LATENCY / 1.5
    step = max(together * work * (1 + _ALONE / per_simd), latency)
    if step == latency:
        bound = "latency"
    busy = -(-each // together) * (steps * step + _FILL)
    memory = _traffic(problem, config) / device.bandwidth
    if memory > busy:
        bound = "memory"
    seconds = max(busy, memory) + device.launch
    if config.split_k > 1:
        sums = problem.m * problem.n * problem.batch * 4
        seconds += device.launch + sums * (config.split_k + 1) / device.bandwidth
    if config.streams:
        sums = (tiles + config.streams) * config.tile_m * config.tile_n * 4
        seconds += device.launch + _FILL + 2 * sums / device.bandwidth
    return Candidate(config, lds, vgprs, waves, groups, seconds, _roofline(problem, device), bound)


def _tiles(problem: GemmProblem, config: GemmConfig) -> int:
    tiles = -(-problem.m // config.tile_m) * -(-problem.n // config.tile_n)
    return tiles * problem.batch


def _rate(problem: GemmProblem, device: DeviceFigures) -> float:
    """Return products per second and compute unit."""
    widest = max(problem.a_bits, problem.b_bits) if problem.shared else problem.a_bits
    faster = 16 // widest
    return device.products * faster * device.simds * device.clock


def _step_seconds(
    problem: GemmProblem, device: DeviceFigures, config: GemmConfig
) -> tuple[float, str]:
    """Return the time of one tile along k on one compute unit, and what limits it."""
    products = config.tile_m * config.tile_n * config.tile_k / _rate(problem, device)
    if problem.unpacking:
        # Every wave unpacks its own columns, on units that multiply meanwhile or share the issue.
        unpacked = config.tile_n * config.tile_k * config.waves_m
        rate = 8 * device.lanes * device.simds * device.clock
        products += unpacked * problem.unpacking.operations / rate
    row = config.tile_k * problem.a_bits // 8
    read, written = config.tile_m * config.waves_n * row, config.tile_m * row
    past = config.tile_n * config.waves_m * config.tile_k * problem.b_bits // 8
    if problem.shared and problem.b.order in ("", WAVE_ORDER):  # both go to registers
        read, written, past = 0, 0, past + read
    elif not problem.b.order:
        read += config.tile_n * config.waves_m * row
        written, past = written + config.tile_n * row, 0
    if config.direct:
        read -= written // 4  # no instructions that write
    lds = (read + written) / (device.lds_bytes * device.clock)
    loads = (written + past) / (_CACHE_BYTES * device.clock)
    return max((products, "products"), (lds, "lds"), (loads, "loads"))


def _traffic(problem: GemmProblem, config: GemmConfig) -> float:
    """Return the bytes from and to device memory: tiles that are walked together share operands."""
    tiles_m = -(-problem.m // config.tile_m)
    again = -(-tiles_m // config.group_m)
    a, b = problem.m * problem.k * problem.a_bits // 8, problem.n * problem.k * problem.b_bits // 8
    c = problem.m * problem.n * OUTPUTS[problem.out_dtype]
    return float(problem.batch * (a + b * min(2, again) + c))


def _roofline(problem: GemmProblem, device: DeviceFigures) -> float:
    products = problem.batch * problem.m * problem.n * problem.k
    a, b = (
        rows * problem.k * bits // 8
        for rows, bits in ((problem.m, problem.a_bits), (problem.n, problem.b_bits))
    )
    traffic = problem.batch * (a + b + problem.m * problem.n * OUTPUTS[problem.out_dtype])
    return max(products / (_rate(problem, device) * device.units), traffic / device.bandwidth)
