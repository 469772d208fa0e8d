"""From a configuration to a plan, or to the rule that it breaks: `derive`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from flydsl.errors import ConfigError
from flydsl_kernels.gemm.device_figures import figures_of
from flydsl_kernels.gemm.formats import FORMATS, OUTPUTS
from flydsl_kernels.gemm.instruction import PIECE, MatrixCore, core_for
from flydsl_kernels.gemm.plan import (
    WEIGHTS,
    EpiloguePlan,
    GemmConfig,
    GemmPlan,
    OperandPlan,
    steps_early,
)
from flydsl_kernels.gemm.problem import SCALE_BLOCK, GemmProblem, Operand
from flydsl_rocdl.arch import ArchFacts, lookup
from flydsl_rocdl.arch.memory import lds_transposes
from flydsl_rocdl.kernels.preshuffle import LAYOUTS

__all__ = [
    "MOST_SPLITS",
    "OVERHEAD",
    "REACH",
    "Broken",
    "broken_rules",
    "derive",
    "lds_bytes",
    "registers",
    "sum_epilogue",
]

__flydsl_internal__ = True  # errors are at the line of the caller

REACH = 0x7FFFFFF0
"""Most bytes from the first to the last element of a tile in global memory."""
_MOST_CHUNKS = 32
MOST_SPLITS = 256
"""Most parts of K."""
_MOST_STREAMS = 1 << 16
OVERHEAD = 26
"""Registers for addresses and what else there is; from compiled kernels."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a configuration breaks.

    Attributes:
        code: The error's code.
        rule: The rule.
        value: What breaks it.
        allowed: What would not.
    """

    code: str
    rule: str
    value: object
    allowed: str


def derive(problem: GemmProblem, facts: ArchFacts, config: GemmConfig) -> GemmPlan:
    """Return what to compile for a configuration.

    Raises:
        ConfigError: It breaks a rule; the message names it.
        TargetError: The architecture multiplies no such types.
    """
    return _derived(problem, facts.name, config)


@lru_cache(maxsize=4096)
def _derived(problem: GemmProblem, arch: str, config: GemmConfig) -> GemmPlan:
    facts = lookup(arch)
    core = core_for(facts, *problem.multiplied)
    for broken in broken_rules(problem, facts, core, config):
        raise ConfigError(
            broken.rule, code=broken.code, value=broken.value, allowed=broken.allowed,
            hint="plan_gemm(problem, target).candidates lists the legal configurations",
        )  # fmt: skip
    return _plan(problem, facts, core, config)


def _spread(problem: GemmProblem, facts: ArchFacts, core: MatrixCore, config: GemmConfig) -> int:
    """Return how many tiles alternate: as many as make stores of 16 bytes, and fit a wave.

    Transposing reads of rows that alternate would have bank conflicts.
    """
    if not problem.b.k_major and _transposes(facts, core):
        return 1
    wanted = max(1, PIECE // (core.values * OUTPUTS[problem.out_dtype]))
    tiles = config.tile_n // config.waves_n // 16
    return min(wanted, tiles & -tiles)


def _plan(problem: GemmProblem, facts: ArchFacts, core: MatrixCore, config: GemmConfig) -> GemmPlan:
    size = FORMATS[problem.dtype].bytes
    order = problem.b.order
    spread = 1 if order else _spread(problem, facts, core, config)
    a = OperandPlan(
        rows=config.tile_m,
        chunks=config.tile_k * size // PIECE,
        element_bytes=size,
        k_major=problem.a.k_major,
        vector=problem.a_vector,
        threads=config.waves * core.wave,
        line=facts.lds.banks * facts.lds.bank_bytes // PIECE,
        values=core.values,
        ragged=problem.k % config.tile_k != 0,
        direct=config.direct and not _moves(facts) and _whole(problem.a, facts, core),
        tensor=_transferring(problem.a, facts, config),
        transposing=not problem.a.k_major and _transposes(facts, core),
        near=_near(problem.a, problem.m, problem.k, size),
    )
    b = replace(
        a,
        rows=config.tile_n,
        k_major=problem.b.k_major,
        vector=problem.b_vector,
        spread=spread,
        interleaved=core.interleaved,
        direct=config.direct and not (order or _moves(facts)) and _whole(problem.b, facts, core),
        tensor=_transferring(problem.b, facts, config),
        transposing=not problem.b.k_major and _transposes(facts, core),
        near=_near(problem.b, problem.n, problem.k, size),
        order=order,
        unpacking=problem.unpacking.name if problem.unpacking else "",
    )
    split = config.split_k > 1
    block = SCALE_BLOCK if problem.scaling.a == "block" else 0
    epilogue = EpiloguePlan() if split else _epilogue(problem)
    width = core.values * spread
    vector = min(width, problem.c_vector)
    if split:
        vector = min(width, 4 if problem.n % 4 == 0 else 1)
    epilogue = replace(epilogue, vector=vector)
    dies = figures_of(facts.family).dies
    return GemmPlan(config, core, a, b, epilogue, block, dies)


def _epilogue(problem: GemmProblem) -> EpiloguePlan:
    inner = ("block", "shared")
    return EpiloguePlan(
        "" if problem.scaling.a in inner else problem.scaling.a,
        "" if problem.scaling.b in inner else problem.scaling.b,
        problem.bias, problem.activation, problem.residual, problem.scaling.out,
    )  # fmt: skip


def _near(operand: Operand, rows: int, k: int, size: int) -> bool:
    """Return whether a matrix, with two tiles past its end, spans less than 2 GiB."""
    count, length = (rows, k) if operand.k_major else (k, rows)
    return (count + 1024) * ((operand.leading or length) + 1024) * size < REACH


def _moves(facts: ArchFacts) -> bool:
    """Return whether there is a tensor data mover."""
    return "tdm" in facts.has


def _transferring(operand: Operand, facts: ArchFacts, config: GemmConfig) -> int:
    """Return how many waves transfer an operand's tile by the tensor data mover."""
    there = config.direct and operand.k_major and not operand.order
    return config.waves if there and _moves(facts) else 0


def _transposes(facts: ArchFacts, core: MatrixCore) -> bool:
    """Return whether LDS reads transpose elements as the instruction takes them."""
    halves = core.operand in ("BFloat16", "Float16")
    return halves and core.calls == 1 and (16, 64, 16) in lds_transposes(facts)


def _whole(operand: Operand, facts: ArchFacts, core: MatrixCore) -> bool:
    """Return whether pieces of an operand are moved to LDS as they are."""
    return operand.k_major or _transposes(facts, core)


def sum_epilogue(problem: GemmProblem) -> EpiloguePlan:
    """Return how the sums of the parts of K are finished."""
    return replace(_epilogue(problem), vector=min(4, problem.c_vector))


def broken_rules(
    problem: GemmProblem, facts: ArchFacts, core: MatrixCore, config: GemmConfig
) -> Iterator[Broken]:
    """Yield the rules that a configuration breaks, the most basic first."""
    for name in ("tile_m", "tile_n", "tile_k", "waves_m", "waves_n", "split_k", "group_m"):
        if getattr(config, name) < 1:
            yield Broken("FLY-C920", f"{name} is at least 1", getattr(config, name), "from 1 on")
            return
    if problem.b.order:
        yield from _order_rules(problem, facts)
    yield from _shape_rules(facts, core, config)
    yield from _k_rules(problem, core, config)
    yield from _cover_rules(problem, core, config)
    yield from _memory_rules(problem, facts, core, config)
    if config.direct:
        yield from _direct_rules(problem, facts, core, config)
    if config.streams:
        yield from _stream_rules(problem, config)


def _order_rules(problem: GemmProblem, facts: ArchFacts) -> Iterator[Broken]:
    order = problem.b.order
    if order not in WEIGHTS or facts.family not in LAYOUTS[order].families:
        known = [name for name in WEIGHTS if facts.family in LAYOUTS[name].families]
        yield Broken(
            "FLY-C927", f"{facts.name} multiplies weights in an order that it reads", order,
            ", ".join(known) or "plain matrices",
        )  # fmt: skip


def _shape_rules(facts: ArchFacts, core: MatrixCore, config: GemmConfig) -> Iterator[Broken]:
    for side in ("m", "n"):
        tile, waves = getattr(config, f"tile_{side}"), getattr(config, f"waves_{side}")
        if tile % (16 * waves):
            yield Broken(
                "FLY-C920", f"waves divide tile_{side} into tiles of 16",
                f"tile_{side}={tile}, waves_{side}={waves}", f"multiples of {16 * waves}",
            )  # fmt: skip
    threads = config.waves * core.wave
    if threads > facts.max_threads_per_block:
        yield Broken(
            "FLY-C920", "the waves fit a workgroup", f"{threads} threads",
            f"{facts.max_threads_per_block}",
        )  # fmt: skip
    if config.split_k > MOST_SPLITS:
        yield Broken("FLY-C920", "K is split in few parts", config.split_k, f"1 to {MOST_SPLITS}")


def _k_rules(problem: GemmProblem, core: MatrixCore, config: GemmConfig) -> Iterator[Broken]:
    size = FORMATS[problem.dtype].bytes
    row = config.tile_k * size
    least = core.step_bytes
    if row & (row - 1) or not least <= row <= _MOST_CHUNKS * PIECE:
        yield Broken(
            "FLY-C921", "tile_k is a power of two that holds whole instructions", config.tile_k,
            f"powers of two from {least // size} to {_MOST_CHUNKS * PIECE // size}",
        )  # fmt: skip
    if problem.scaling.a == "block":
        wave_n = config.tile_n // config.waves_n
        if config.tile_k > SCALE_BLOCK or (SCALE_BLOCK % wave_n and wave_n % SCALE_BLOCK):
            yield Broken(
                "FLY-C926", "a tile along k, and a wave's columns, lie in one block of scales",
                f"tile_k={config.tile_k}, {wave_n} columns", f"{SCALE_BLOCK} and its divisors",
            )  # fmt: skip


def _cover_rules(problem: GemmProblem, core: MatrixCore, config: GemmConfig) -> Iterator[Broken]:
    size = FORMATS[problem.dtype].bytes
    threads = config.waves * core.wave
    sides = (("A", config.tile_m, problem.a.k_major), ("B", config.tile_n, problem.b.k_major))
    for name, rows, k_major in sides[: _staged(problem)]:
        pieces = rows * (config.tile_k * size // PIECE)
        if pieces % threads and threads % max(1, pieces):
            yield Broken(
                "FLY-C922",
                f"the threads' loads of 16 bytes cover the tile of {name} a whole number of times",
                f"{rows} x {config.tile_k}, {threads} threads", f"multiples of {threads * PIECE} "
                "bytes, or its divisors",
            )  # fmt: skip
        elif not k_major and rows & (rows - 1):
            yield Broken(
                "FLY-C922", f"a tile of {name} with contiguous rows has a power of two of them",
                rows, "powers of two",
            )  # fmt: skip


def _staged(problem: GemmProblem) -> int:
    """Return how many operands go through LDS: preshuffled weights do not."""
    return 1 if problem.b.order else 2


def lds_bytes(problem: GemmProblem, facts: ArchFacts, config: GemmConfig) -> int:
    """Return the bytes of LDS: two tiles of an operand, with a gap after transferred rows."""
    row = config.tile_k * FORMATS[problem.dtype].bytes
    sides = ((config.tile_m, problem.a), (config.tile_n, problem.b))[: _staged(problem)]
    gaps = [PIECE if _transferring(operand, facts, config) else 0 for _, operand in sides]
    return sum(2 * rows * (row + gap) for (rows, _), gap in zip(sides, gaps, strict=True))


def registers(problem: GemmProblem, core: MatrixCore, config: GemmConfig) -> int:
    """Return about how many vector registers a lane needs."""
    tiles_m, tiles_n = config.tile_m // config.waves_m // 16, config.tile_n // config.waves_n // 16
    sums = tiles_m * tiles_n * core.values
    fragments = (tiles_m + tiles_n) * core.reads * 4
    size = FORMATS[problem.dtype].bytes
    sides = ((config.tile_m, problem.a), (config.tile_n, problem.b))
    staged = sum(
        rows * config.tile_k * size // (config.waves * core.wave) // 4
        for rows, operand in sides[: _staged(problem)]
        if not (config.direct and operand.k_major)
    )
    if problem.b.order:
        # All of a wave's weights of a tile; of A, those of the step in use and of the next ones,
        # and where all lanes hold all k of one more, as compiled kernels have it.
        steps = config.tile_k * size // core.step_bytes
        held = tiles_n * steps * core.reads * 4 * problem.b_bits // (8 * size)
        unpacked = tiles_n * core.reads * 4 if problem.unpacking else 0
        ahead = min(steps, 1 + steps_early(tiles_m) + (core.groups == 1))
        fragments = tiles_m * ahead * core.reads * 4 + held + unpacked
    blocks = sums if problem.scaling.a == "block" else 0
    return sums + blocks + fragments + staged + max(2, staged // 4) + OVERHEAD


def _memory_rules(
    problem: GemmProblem, facts: ArchFacts, core: MatrixCore, config: GemmConfig
) -> Iterator[Broken]:
    needed = lds_bytes(problem, facts, config)
    if needed > facts.lds.capacity:
        yield Broken(
            "FLY-C923", f"two tiles of each operand fit the LDS of {facts.name}",
            f"{needed} bytes", f"{facts.lds.capacity} bytes",
        )  # fmt: skip
    rules = facts.registers
    waves = max(1, -(-config.waves // facts.lds.simds))
    most = min(rules.vgpr_usual + rules.agpr_max, rules.vgpr_total // waves)
    if registers(problem, core, config) > most:
        yield Broken(
            "FLY-C924", "a lane's sums, fragments and loads fit its registers",
            f"about {registers(problem, core, config)}", f"{most} on {facts.name}",
        )  # fmt: skip
    for name, reach in _reaches(problem, config):
        if reach > REACH:
            yield Broken(
                "FLY-C925", f"a tile of {name} spans less than 2 GiB", f"{reach} bytes",
                f"{REACH}; copy {name} to shorter rows, or use smaller tiles",
            )  # fmt: skip


def _reaches(problem: GemmProblem, config: GemmConfig) -> Iterator[tuple[str, int]]:
    size = FORMATS[problem.dtype].bytes
    for name, operand, rows, total in (
        ("A", problem.a, config.tile_m, problem.m), ("B", problem.b, config.tile_n, problem.n)
    ):  # fmt: skip
        if operand.order:
            yield name, 2 * (problem.k + config.tile_k) * problem.b_bits
        elif operand.k_major:
            yield name, (min(rows, total) * (operand.leading or problem.k) + config.tile_k) * size
        else:
            steps = min(config.tile_k, problem.k)
            yield name, (steps * (operand.leading or total) + rows) * size
    width = OUTPUTS[problem.out_dtype] if config.split_k == 1 else 4
    rows = min(config.tile_m, problem.m)
    leading = problem.n if config.split_k > 1 else problem.c.leading or problem.n
    yield "C", (rows * leading + config.tile_n) * width


def _transfer_rules(problem: GemmProblem, facts: ArchFacts, config: GemmConfig) -> Iterator[Broken]:
    sides = (("m", config.tile_m, problem.a), ("n", config.tile_n, problem.b))
    own = [side for side in sides if _transferring(side[2], facts, config)]
    for name, rows, _ in own:
        if rows % config.waves:
            yield Broken(
                "FLY-C927", f"the waves share the tensor transfers of tile_{name}",
                f"{config.waves} waves, {rows} rows", f"multiples of {config.waves}, direct=False",
            )  # fmt: skip
    if not own:
        yield Broken(
            "FLY-C927", "tensor transfers need an operand whose k is contiguous", "neither",
            "direct=False",
        )  # fmt: skip


def _direct_rules(
    problem: GemmProblem, facts: ArchFacts, core: MatrixCore, config: GemmConfig
) -> Iterator[Broken]:
    if _moves(facts):
        yield from _transfer_rules(problem, facts, config)
        return
    if PIECE not in facts.lds_dma_bytes:
        yield Broken(
            "FLY-C927", "loads of 16 bytes into LDS need an architecture that has them",
            facts.name, "direct=False",
        )  # fmt: skip
    sides = (("A", problem.a, problem.a_vector), ("B", problem.b, problem.b_vector))
    whole = [side for side in sides[: _staged(problem)] if _whole(side[1], facts, core)]
    for name, _, vector in whole:
        if vector < PIECE:
            yield Broken(
                "FLY-C927", f"loads into LDS need rows of {name} of whole 16 bytes",
                f"loads of {vector} bytes", "direct=False",
            )  # fmt: skip
    if not whole:
        yield Broken(
            "FLY-C927", "loads into LDS need an operand whose k is contiguous", "neither",
            "direct=False",
        )  # fmt: skip


def _stream_rules(problem: GemmProblem, config: GemmConfig) -> Iterator[Broken]:
    tiles = -(-problem.m // config.tile_m) * -(-problem.n // config.tile_n) * problem.batch
    if not tiles <= config.streams <= _MOST_STREAMS or config.split_k > 1 or problem.k == 0:
        yield Broken(
            "FLY-C920", "workgroups that share all steps are as many as tiles or more, K is not "
            "empty and not split", f"streams={config.streams}, split_k={config.split_k}, "
            f"K={problem.k}", f"streams from {tiles} to {_MOST_STREAMS}, split_k=1",
        )  # fmt: skip
