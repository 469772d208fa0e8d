"""What every lowering rule works with: the target, the builder and the rule table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from flydsl import mlir
from flydsl.errors import SourceLocation, TargetError
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.passes.builder import Builder, Value
from flydsl_rocdl.passes.memtypes import PointerType, parse_pointer
from flydsl_rocdl.target import RocdlTarget

__all__ = [
    "DYNAMIC_LDS",
    "RULES",
    "Lowering",
    "Rule",
    "constant_of",
    "location_of",
    "refuse",
    "rule",
]

DYNAMIC_LDS = "__fly_dynamic_lds"
"""Symbol of the external array that stands for the dynamic LDS of a launch."""

Op: TypeAlias = Any
Rule: TypeAlias = "Callable[[Lowering, Op], list[Value] | None]"

_RULES: dict[str, Rule] = {}
RULES: Mapping[str, Rule] = MappingProxyType(_RULES)
"""Operation name to lowering rule; filled by the modules of this package when they are imported."""


@dataclass(slots=True)
class Lowering:
    """State while one gpu.module is lowered.

    Attributes:
        target: The target.
        b: The operation builder.
        module: The gpu.module operation.
        block: Block size of the kernel at hand, None when it is not known.
        approximate: Whether mathematical functions may be the hardware's approximations.
        explicit_waits: Whether the function at hand says itself when its loads into LDS arrive.
        functions: Device-library functions that were declared.
        intrinsics: Symbols of called intrinsics by name and signature.
        symbols: Globals of local data share that were created.
        function: The function at hand.
        op: The operation at hand.
        operand_types: Types of its operands before anything was lowered.
    """

    target: RocdlTarget
    b: Builder
    module: Op
    block: tuple[int, int, int] | None = None
    approximate: bool = False
    explicit_waits: bool = False
    functions: set[str] = field(default_factory=set)
    symbols: set[str] = field(default_factory=set)
    intrinsics: dict[tuple[str, str], str] = field(default_factory=dict)
    function: Op = None
    op: Op = None
    operand_types: tuple[Any, ...] = ()
    _kinds: dict[Any, PointerType | None] = field(default_factory=dict)

    @property
    def facts(self) -> ArchFacts:
        """Facts of the target's architecture."""
        return self.target.facts

    def pointer_kind(self, kind: Any) -> PointerType | None:
        """Return what an MLIR type says if it is a Fly pointer, else None."""
        try:
            return self._kinds[kind]
        except KeyError:
            found = self._kinds[kind] = parse_pointer(str(kind))
            return found

    def operand_pointer(self, op: Op, number: int) -> PointerType:
        """Return the Fly pointer type that an operand of the operation at hand has.

        Raises:
            TargetError: The operand is no pointer.
        """
        kind = self.pointer_kind(self.operand_types[number])
        if kind is None:
            raise refuse(op, f"{op.name} takes a pointer, not {self.operand_types[number]}",
                         code="FLY-T630")  # fmt: skip
        return kind

    def lane(self) -> Value:
        """Return the lane number as i32."""
        b = self.b
        zero, ones = b.constant(0), b.constant(-1)
        low = b.intrinsic("amdgcn.mbcnt.lo", b.type("i32"), (ones, zero)).result
        if self.facts.wave_size == 32:
            return low
        return b.intrinsic("amdgcn.mbcnt.hi", b.type("i32"), (ones, low)).result

    def call(self, name: str, result: Any, operands: list[Value]) -> Value:
        """Call a device-library function (`flydsl_rocdl.devlib`), declaring it when new."""
        b = self.b
        symbol = f"__fly_{name}"
        if name not in self.functions:
            self.functions.add(name)
            arguments = ", ".join(str(v.type) for v in operands)
            b.declare(self.module, symbol, f"!llvm.func<{result} ({arguments})>")
        return b.value(
            "llvm.call", result, operands,
            {
                "callee": f"@{symbol}",
                "CConv": "#llvm.cconv<ccc>",
                "TailCallKind": "#llvm.tailcallkind<none>",
                "fastmathFlags": "#llvm.fastmath<none>",
                "op_bundle_sizes": "array<i32>",
                "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
            },
        )  # fmt: skip


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering of the operations called `names`.

    The function gets the lowering and the operation and returns replacements of its results, or
    None to leave the operation to the upstream conversion.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = function
        return function

    return register


def location_of(op: Op) -> SourceLocation | None:
    """Return the user's line of an operation from its MLIR location, None when it has none."""
    return mlir.source_location(op.location)


def constant_of(value: Value) -> int | None:
    """Return the integer that `value` is a constant of, None when it is not a constant."""
    owner = value.owner
    if getattr(owner, "name", "") not in ("arith.constant", "llvm.mlir.constant"):
        return None
    attribute = owner.attributes["value"]
    number = getattr(attribute, "value", None)
    return number if isinstance(number, int) else None


def refuse(op: Op, message: str, *, code: str, allowed: str = "", hint: str = "") -> TargetError:
    """Return a `TargetError` at the user's line of `op`."""
    return TargetError(message, code=code, allowed=allowed, hint=hint, location=location_of(op))
