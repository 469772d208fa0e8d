"""``convert-fly-to-rocdl``: from Fly pointers, atoms and GPU operations to ROCDL, LLVM and arith.

Input: gpu functions without layouts, that is gpu, arith, scf, math and vector operations, Fly
pointers, and loads, stores and atom calls on them. Output: what the upstream conversions to the
LLVM dialect take. Pointer-typed values keep their place and only change their type, so control flow
needs no rewriting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flydsl.errors import CompilerBug, TargetError
from flydsl_rocdl.passes import (
    async_groups,
    intrinsics,
    lane_addresses,
    leaving,
    rules,
    settling,
    wide,
)
from flydsl_rocdl.passes.builder import Builder, Value
from flydsl_rocdl.passes.clusters import cluster_attributes
from flydsl_rocdl.passes.lowering import RULES, Lowering, location_of, refuse
from flydsl_rocdl.passes.pointers import llvm_pointer
from flydsl_rocdl.target import RocdlTarget

__all__ = ["run"]

_KEPT_DIALECTS = frozenset({"arith", "scf", "cf", "vector", "llvm", "rocdl", "builtin"})
_KEPT_OPS = frozenset({"gpu.func", "gpu.return", "gpu.module"})


def run(
    module: Any,
    target: Any,
    *,
    waves_per_eu: tuple[int, ...] = (),
    unsafe_fp_math: bool = False,
    flush_denormals: bool = False,
    **options: object,
) -> None:
    """Lower every gpu.module of `module` in place.

    Args:
        module: The module.
        target: A `RocdlTarget`.
        waves_per_eu: Requested occupancy bounds, as in `CompileOptions`.
        unsafe_fp_math: Use the hardware's approximations of mathematical functions.
        flush_denormals: Run f32 operations in the mode that flushes denormal numbers.
        options: Other pass options; none has a meaning here.

    Raises:
        TargetError: The architecture cannot do what the kernel asks.
        CompilerBug: An operation is left that no rule covers.
    """
    if not isinstance(target, RocdlTarget):
        raise CompilerBug("convert-fly-to-rocdl needs an AMD target", code="FLY-B611", value=target)
    if options:
        raise CompilerBug("unknown options of convert-fly-to-rocdl", code="FLY-B611", value=options)
    rules.load()
    context = module.context
    clusters = cluster_attributes(module) if "cluster" in target.facts.has else {}
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            low = Lowering(target, Builder(context), op.operation, approximate=unsafe_fp_math)
            passed = _passed(low, waves_per_eu, flush_denormals)
            _lower_module(low, passed, clusters)


def _functions(module: Any) -> Iterator[Any]:
    for op in module.regions[0].blocks[0].operations:
        if op.operation.name == "gpu.func":
            yield op.operation


def _lower_module(low: Lowering, passed: Sequence[str], clusters: Mapping[str, str]) -> None:
    low.b.at_module_end(low.module)
    for function in list(_functions(low.module)):
        low.block = _known_block(function)
        own = list(passed)
        dims = clusters.get(str(function.attributes["sym_name"].value))
        if dims is not None:
            own.append(f'["amdgpu-cluster-dims", "{dims}"]')
        _set_attributes(low, function, own)
        _lower_function(low, function)
    low.b.at_module_end(low.module)
    low.b.op(
        "llvm.module_flags", (), (),
        {"flags": '[#llvm.mlir.module_flag<error, "amdhsa_code_object_version", 600 : i32>]'},
    )  # fmt: skip


def _known_block(function: Any) -> tuple[int, int, int] | None:
    if "known_block_size" not in function.attributes:
        return None
    x, y, z = function.attributes["known_block_size"]
    return int(x), int(y), int(z)


def _passed(low: Lowering, waves_per_eu: tuple[int, ...], flush_denormals: bool) -> Sequence[str]:
    """Return the function attributes that the compile options ask for, as MLIR text.

    Raises:
        TargetError: No such occupancy exists.
    """
    passed: list[str] = []
    if flush_denormals:
        passed.append('["denormal-fp-math-f32", "preserve-sign,preserve-sign"]')
    if waves_per_eu:
        highest = low.facts.max_waves_per_simd
        if max(waves_per_eu) > highest or waves_per_eu[0] < 1:
            raise TargetError(
                "waves_per_eu is out of range", code="FLY-T612", value=waves_per_eu,
                allowed=f"1 to {highest} on {low.target.arch}",
                location=next((location_of(f) for f in _functions(low.module)), None),
            )  # fmt: skip
        bounds = ",".join(str(n) for n in waves_per_eu)
        passed.append(f'["amdgpu-waves-per-eu", "{bounds}"]')
    elif low.facts.registers.vgpr_max > low.facts.registers.vgpr_usual:
        # LLVM 22.1 sets the upper bits of register numbers an instruction too early where a barrier
        # follows, which is wrong for registers above 255: leave room for so many waves that none
        # has them.
        waves = low.facts.registers.vgpr_total // low.facts.registers.vgpr_usual
        passed.append(f'["amdgpu-waves-per-eu", "{waves}"]')
    return passed


def _set_attributes(low: Lowering, function: Any, passed: Sequence[str]) -> None:
    """Record what the back end should know about a kernel."""
    b = low.b
    if low.block is None:
        # Upstream would promise at most 256 threads by default.
        limit = low.facts.max_threads_per_block
        function.attributes["rocdl.flat_work_group_size"] = b.attribute(f'"1,{limit}"')
    if passed:
        function.attributes["passthrough"] = b.attribute(f"[{', '.join(passed)}]")


@contextlib.contextmanager
def _located(op: Any) -> Iterator[None]:
    try:
        yield
    except TargetError as error:
        raise error.with_location(location_of(op)) from None


def _collect(low: Lowering, function: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the operations to lower with their operands' types; give pointers LLVM types.

    Raises:
        TargetError: An operation has no lowering.
    """
    found: list[Any] = []

    def collect(op: Any) -> Any:
        found.append(op)
        return advance

    advance = low.b.ir.WalkResult.ADVANCE
    # An exception inside the callback would lose its type, so the walk only collects.
    function.walk(collect, low.b.ir.WalkOrder.PRE_ORDER)

    work: list[tuple[Any, tuple[Any, ...]]] = []
    pointers: list[tuple[Value, Any]] = []

    def note_pointers(values: Any) -> None:
        for value in values:
            kind = low.pointer_kind(value.type)
            if kind is not None:
                pointers.append((value, llvm_pointer(low, kind)))

    for op in found:
        name = op.name
        if name in RULES:
            fly = name.startswith("fly.")
            work.append((op, tuple(v.type for v in op.operands) if fly else ()))
        elif name.partition(".")[0] in _KEPT_DIALECTS or name in _KEPT_OPS:
            low.op = op
            note_pointers(op.results)
            for region in op.regions:
                for block in region.blocks:
                    note_pointers(block.arguments)
        else:
            raise refuse(op, f"{name} has no lowering for AMD GPUs", code="FLY-T630")
    for value, kind in pointers:
        value.set_type(kind)
    return work


def _lower_function(low: Lowering, function: Any) -> None:
    low.function = function
    _set_argument_attributes(low, function)
    intrinsics.replace(low, function)
    wide.prepare(low, function)
    lane_addresses.check(low, function)
    leaving.keep(low, function)
    async_groups.lower(low, function)
    work = _collect(low, function)
    replaced: list[Any] = []
    for op, operand_types in work:
        low.op, low.operand_types = op, operand_types
        low.b.at(op)
        with _located(op):
            replacements = RULES[op.name](low, op)
        if replacements is None:
            continue
        replaced.append(op)
        if replacements:
            for old, new in zip(op.results, replacements, strict=True):
                old.replace_all_uses_with(new)
    for op in reversed(replaced):
        op.erase()
    settling.settle(low, function)
    intrinsics.keep_apart(low, function)
    _set_function_type(low, function)


def _set_argument_attributes(low: Lowering, function: Any) -> None:
    """Tell LLVM each pointer argument's alignment, while its Fly type is still there."""
    texts = []
    for argument in function.regions[0].blocks[0].arguments:
        kind = low.pointer_kind(argument.type)
        known = f"llvm.align = {kind.align} : i64, " if kind is not None and kind.align > 1 else ""
        texts.append(f"{{{known}llvm.noundef}}")
    function.attributes["arg_attrs"] = low.b.attribute(f"[{', '.join(texts)}]")


def _set_function_type(low: Lowering, function: Any) -> None:
    ir = low.b.ir
    inputs = [argument.type for argument in function.regions[0].blocks[0].arguments]
    before = function.attributes["function_type"].value
    after = ir.FunctionType.get(inputs, before.results, low.b.context)
    function.attributes["function_type"] = ir.TypeAttr.get(after, low.b.context)
