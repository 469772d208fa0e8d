"""Products where 32 neighbouring k share an E8M0 scale: formats, configurations and their rules.

Where instructions with scales are WMMA, both operands go from memory to registers, as rows of codes
or rearranged weights, and a tile along k is one instruction's. Where they are MFMA, weights are
rearranged and A goes through LDS, by the kernel of `device.preshuffle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from flydsl.errors import ConfigError, TargetError
from flydsl_kernels.gemm.formats import SHARED
from flydsl_kernels.gemm.plan import SHARED_STEP, EpiloguePlan, GemmConfig, MxPlan
from flydsl_kernels.gemm.problem import GemmProblem
from flydsl_kernels.gemm.rules import MOST_SPLITS, OVERHEAD, REACH, Broken, sum_epilogue
from flydsl_rocdl.arch import KNOWN, ArchFacts
from flydsl_rocdl.kernels.preshuffle import LAYOUTS

if TYPE_CHECKING:
    from flydsl_kernels.gemm.device.preshuffle.plan import PreshufflePlan

__all__ = [
    "WAVE_ORDER",
    "derive_shared",
    "shared_configs",
    "shared_needs",
    "shared_rules",
    "through_lds",
]

__flydsl_internal__ = True  # errors are at the line of the caller

_WAVE = 32
_VALUES = 8
_SLACK = 16
"""Registers of a lane that stay free: kernels that are predicted to need the last ones spill."""
_TILES = (
    (16, 64, 1, 4),
    (32, 64, 1, 4),
    (32, 128, 1, 4),
    (64, 64, 2, 2),
    (64, 96, 2, 2),
    (64, 128, 2, 2),
    (64, 128, 2, 4),
    (128, 64, 2, 2),
    (128, 96, 2, 2),
    (128, 128, 2, 2),
    (128, 128, 4, 4),
    (128, 256, 2, 4),
    (256, 256, 4, 4),
)
_WEIGHT_TILES = tuple(
    (tile_m, tile_n, tile_k)
    for tile_m in (32, 64, 128)
    for tile_n in (128, 256)
    for tile_k in (256, 128)
)
_WEIGHT_KINDS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("fp4", "fp4"): "mxfp4",
        ("fp6", "fp4"): "mxfp6",
        ("fp8", "fp8"): "mxfp8",
        ("fp8", "fp4"): "mxfp8_fp4",
    }
)
"""Types of A and of rearranged weights, and the kernel's name of the two."""
WAVE_ORDER = "cdna5_16x16"
"""Order of rearranged weights for WMMA instructions with scales."""
_SCALE_ROWS = 32
"""Rows whose scales are rearranged together there."""
_PART = 256
"""Columns of A that a word of rearranged scales is for."""


def through_lds(problem: GemmProblem, facts: ArchFacts) -> bool:
    """Return whether A goes through LDS there, and weights are rearranged in any case.

    Raises:
        TargetError: The architecture has no instructions with such scales.
        ConfigError: B is plain where it has to be rearranged, or the other way round.
    """
    families = {shape.family for shape in facts.matrix}
    weights = "mfma_scale" in families
    if not weights and "wmma_scale" not in families:
        known = [f.name for f in KNOWN.values() if _scales(f)]
        raise TargetError(
            f"{facts.name} does not multiply with E8M0 scales", code="FLY-T910",
            value=facts.name, allowed=", ".join(known),
        )  # fmt: skip
    wanted = SHARED[problem.b_dtype].order
    own = (WAVE_ORDER,) if problem.b_dtype in LAYOUTS[WAVE_ORDER].dtypes else ()
    orders = (wanted,) if weights else ("", *own)
    kinds = SHARED[problem.dtype].kind, SHARED[problem.b_dtype].kind
    if weights and kinds not in _WEIGHT_KINDS:
        raise ConfigError(
            f"{facts.name} has no product of these types with E8M0 scales", code="FLY-C915",
            value=" x ".join(kinds), allowed=", ".join(" x ".join(both) for both in _WEIGHT_KINDS),
        )  # fmt: skip
    if problem.b.order not in orders:
        raise ConfigError(
            f"{facts.name} multiplies weights with E8M0 scales in an order of their own",
            code="FLY-C927", value=problem.b.order or "a plain matrix",
            allowed=", ".join(order or "a plain matrix" for order in orders),
            hint="preshuffle_b(…, layout=…, scales=…) rearranges weights",
        )  # fmt: skip
    return weights


def _scales(facts: ArchFacts) -> bool:
    return any(shape.family in ("mfma_scale", "wmma_scale") for shape in facts.matrix)


def shared_configs(problem: GemmProblem, facts: ArchFacts) -> Iterator[GemmConfig]:
    """Yield the shipped configurations, legal or not, without split K."""
    if through_lds(problem, facts):
        for tile_m, tile_n, tile_k in _WEIGHT_TILES:
            yield GemmConfig(tile_m, tile_n, tile_k, 1, 4)
        return
    for tile_m, tile_n, waves_m, waves_n in _TILES:
        yield GemmConfig(tile_m, tile_n, SHARED_STEP, waves_m, waves_n)


def shared_needs(problem: GemmProblem, facts: ArchFacts, config: GemmConfig) -> tuple[int, int]:
    """Return the bytes of LDS of a workgroup, and about how many registers a lane needs."""
    tiles_m, tiles_n = config.tile_m // config.waves_m // 16, config.tile_n // config.waves_n // 16
    a, b = (SHARED[name].bits for name in (problem.dtype, problem.b_dtype))
    if through_lds(problem, facts):
        sums = tiles_m * tiles_n * 4
        steps = config.tile_k // SHARED_STEP
        held = steps * tiles_n * 4 * b // 4 + (config.tile_m * config.tile_k * a // 8) // 1024
        stored = 8 if a == 6 else a
        return 2 * config.tile_m * config.tile_k * stored // 8, sums + held + 8 * a // 4 + OVERHEAD
    # Codes and scales of the step in use and of the next one; those of 6 bits are widened.
    sums = tiles_m * tiles_n * _VALUES
    held = 2 * (tiles_m * (_loaded(a) + 1) + tiles_n * (_loaded(b) + 1))
    widened = 16 * ((tiles_m if a == 6 else 0) + (tiles_n if b == 6 else 0))
    return 0, sums + held + widened + OVERHEAD


def _loaded(bits: int) -> int:
    """Return the registers of the codes of a step that a lane loads."""
    return 8 if bits == 4 else 16


def shared_rules(problem: GemmProblem, facts: ArchFacts, config: GemmConfig) -> Iterator[Broken]:
    """Yield the rules that a configuration breaks, the most basic first."""
    for name in ("tile_m", "tile_n", "tile_k", "waves_m", "waves_n", "split_k", "group_m"):
        if getattr(config, name) < 1:
            yield Broken("FLY-C920", f"{name} is at least 1", getattr(config, name), "from 1 on")
            return
    if config.split_k > MOST_SPLITS:
        yield Broken("FLY-C920", "K is split in few parts", config.split_k, f"1 to {MOST_SPLITS}")
    if config.streams or config.direct:
        name = "streams" if config.streams else "direct"
        yield Broken(
            "FLY-C927", f"products with E8M0 scales have no {name}", getattr(config, name),
            f"{name}={0 if config.streams else False}",
        )  # fmt: skip
    if through_lds(problem, facts):
        yield from _weight_rules(problem, config)
    else:
        yield from _row_rules(problem, facts, config)


def _row_rules(problem: GemmProblem, facts: ArchFacts, config: GemmConfig) -> Iterator[Broken]:
    for side in ("m", "n"):
        tile, waves = getattr(config, f"tile_{side}"), getattr(config, f"waves_{side}")
        if tile % (16 * waves):
            yield Broken(
                "FLY-C920", f"waves divide tile_{side} into tiles of 16",
                f"tile_{side}={tile}, waves_{side}={waves}", f"multiples of {16 * waves}",
            )  # fmt: skip
    if config.waves * _WAVE > facts.max_threads_per_block:
        yield Broken(
            "FLY-C920", "the waves fit a workgroup", f"{config.waves * _WAVE} threads",
            f"{facts.max_threads_per_block}",
        )  # fmt: skip
    if config.tile_k != SHARED_STEP:
        yield Broken(
            "FLY-C921", "tile_k is what one instruction with scales takes", config.tile_k,
            f"{SHARED_STEP}",
        )  # fmt: skip
    waves = max(1, -(-config.waves // facts.lds.simds))
    most = min(facts.registers.vgpr_usual, facts.registers.vgpr_total // waves) - _SLACK
    _, needed = shared_needs(problem, facts, config)
    if needed > most:
        yield Broken(
            "FLY-C924", "a lane's sums and codes fit its registers", f"about {needed}",
            f"{most} on {facts.name}",
        )  # fmt: skip
    if problem.b.order and config.tile_n % _SCALE_ROWS:
        yield Broken(
            "FLY-C920", "tiles begin where rearranged scales do", f"tile_n={config.tile_n}",
            f"multiples of {_SCALE_ROWS}",
        )  # fmt: skip
    if problem.b.order and (problem.k % SHARED_STEP or problem.n % _SCALE_ROWS):
        yield Broken(
            "FLY-C927", "rearranged scales have N and K in whole blocks",
            f"N={problem.n}, K={problem.k}", f"N in {_SCALE_ROWS}, K in {SHARED_STEP}",
        )  # fmt: skip
    for name, rows in (("A", config.tile_m), ("B", config.tile_n)):
        if (rows + 1) * problem.k >= REACH:
            yield Broken(
                "FLY-C925", f"a tile of {name} spans less than 2 GiB", f"{rows * problem.k} bytes",
                f"{REACH}",
            )  # fmt: skip


def _weight_rules(problem: GemmProblem, config: GemmConfig) -> Iterator[Broken]:
    if (config.waves_m, config.waves_n) != (1, 4):
        yield Broken(
            "FLY-C920", "four waves lie along N", f"{config.waves_m} x {config.waves_n}", "1 x 4"
        )
    if problem.k % (_PART * config.split_k):
        yield Broken(
            "FLY-C920", f"parts of K are equal, in {_PART}",
            f"K={problem.k}, split_k={config.split_k}", f"parts of multiples of {_PART}",
        )  # fmt: skip
        return
    try:
        _weight_plan(problem, config)
    except ConfigError as error:
        yield Broken(str(error.code), error.message, error.value, str(error.allowed))


def _weight_plan(problem: GemmProblem, config: GemmConfig) -> PreshufflePlan:
    from flydsl_kernels.gemm.device.preshuffle.plan import PreshufflePlan

    a, b = (SHARED[name].kind for name in (problem.dtype, problem.b_dtype))
    out = {"bfloat16": "bf16", "float16": "fp16"}.get(problem.out_dtype, "f32")
    scaling = problem.scaling
    more = problem.activation or problem.bias or problem.residual or scaling.out
    parts = config.split_k
    return PreshufflePlan(
        _WEIGHT_KINDS[a, b], "f32" if more or parts > 1 else out, problem.n, problem.k // parts,
        config.tile_m, config.tile_n, config.tile_k, group_m=config.group_m,
        whole_k=problem.k if parts > 1 else 0,
    )  # fmt: skip


def derive_shared(
    problem: GemmProblem, facts: ArchFacts, config: GemmConfig
) -> MxPlan | PreshufflePlan:
    """Return what to compile for a configuration.

    Raises:
        ConfigError: It breaks a rule; the message names it.
        TargetError: The architecture has no instructions with such scales.
    """
    for broken in shared_rules(problem, facts, config):
        raise ConfigError(
            broken.rule, code=broken.code, value=broken.value, allowed=broken.allowed,
            hint="plan_gemm(problem, target).candidates lists the legal configurations",
        )  # fmt: skip
    if through_lds(problem, facts):
        return _weight_plan(problem, config)
    finish = sum_epilogue(problem)
    vector = min(_VALUES, problem.c_vector)
    if config.split_k > 1:
        finish, vector = EpiloguePlan(), 4 if problem.n % 4 == 0 else 1
    a, b = (SHARED[name].kind for name in (problem.dtype, problem.b_dtype))
    tiles = config.tile_m // config.waves_m // 16, config.tile_n // config.waves_n // 16
    return MxPlan(
        a, b, tiles, (config.waves_m, config.waves_n), problem.k % SHARED_STEP != 0,
        EpiloguePlan(
            finish.scale_a, finish.scale_b, finish.bias, finish.activation, finish.residual,
            finish.scale_out, vector,
        ),
        config.split_k, config.group_m, bool(problem.b.order),
    )  # fmt: skip
