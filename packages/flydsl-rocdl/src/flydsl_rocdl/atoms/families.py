"""What all matrix operations share: parameters, and checks and layouts that are facts per family.

A family is a table: which element types go together, in which extents, what options may be, and how
many lanes a wave has. `MatrixOp` checks an operation against its family's table and knows the plain
properties; a subclass adds its options and says how operands and the result lie in the lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from flydsl.dialects.atoms import MmaOp
from flydsl.layout import Layout
from flydsl_rocdl.atoms.checks import bad_shape, check_choice

__all__ = ["SAME", "Family", "MatrixOp", "Rule"]

SAME = "same"
"""Stands for a result of the operands' type."""
_NONE: Mapping[str, tuple[object, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Rule:
    """Element types that go together.

    Attributes:
        elements: Types of A and B.
        results: Types of C and D; `SAME` for that of A.
        extents: (m, n, k) that exist for them; empty where the operation computes what exists.
        mixed: Whether A and B may be different ones of `elements`.
    """

    elements: tuple[str, ...]
    results: tuple[str, ...]
    extents: tuple[tuple[int, int, int], ...] = ()
    mixed: bool = False

    def holds(self, a: str, b: str, acc: str) -> bool:
        """Return whether the rule covers these types."""
        pair = a in self.elements and (a == b or (self.mixed and b in self.elements))
        return pair and (acc in self.results or (acc == a and SAME in self.results))


@dataclass(frozen=True, slots=True)
class Family:
    """Facts of one family of matrix instructions.

    Attributes:
        name: As users write it.
        wave: Lanes.
        rules: Types that go together.
        types: What the rules allow, in words.
        shapes: Which extents exist, in words.
        listed: Name the types one by one when A or B has another one.
        options: Allowed values of further parameters.
    """

    name: str
    wave: int
    rules: tuple[Rule, ...]
    types: str
    shapes: str
    listed: bool = False
    options: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class MatrixOp(MmaOp):
    """A matrix instruction of one wave.

    Attributes:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A (of a sparse one, rows of B).
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D.

    Class attributes:
        family: Facts of its family.

    Raises:
        UserError: No architecture has an instruction of these extents, types and options.
    """

    family: ClassVar[Family]
    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str

    def __post_init__(self) -> None:
        family = self.family
        known = tuple(dict.fromkeys(e for rule in family.rules for e in rule.elements))
        if family.listed:
            check_choice(family.name, "the element type of A", self.a, known)
            check_choice(family.name, "the element type of B", self.b, known)
        rules = [rule for rule in family.rules if rule.holds(self.a, self.b, self.acc)]
        if not rules:
            raise bad_shape(family.name, (self.a, self.b, self.acc), family.types)
        if not self._exists(rules):
            raise bad_shape(family.name, (self.m, self.n, self.k), family.shapes)
        for option, allowed in family.options.items():
            check_choice(family.name, option, getattr(self, option), allowed)

    def _exists(self, rules: list[Rule]) -> bool:
        """Return whether an instruction with these extents exists under some of the rules."""
        return any((self.m, self.n, self.k) in rule.extents for rule in rules)

    @property
    def instruction_mnk(self) -> tuple[int, int, int, int]:
        """Extents m, n, k of the instruction's blocks, and their number."""
        return self.m, self.n, self.k, 1

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extents of one instruction."""
        return self.m, self.n, self.k

    @property
    def elements(self) -> tuple[str, str, str, str]:
        """Element types of A, B, C and D."""
        return self.a, self.b, self.acc, self.acc

    def thr_layout(self) -> Layout:
        """Return the lanes of one wave."""
        return Layout(self.family.wave, 1)

    def _operand(self, side: int) -> Layout:
        """Return the layout of A (`side` 0) or B."""
        raise NotImplementedError

    def layout_a_tv(self) -> Layout:
        """Return (lane, value) -> m + M k; of a sparse A, k counts the kept elements."""
        return self._operand(0)

    def layout_b_tv(self) -> Layout:
        """Return (lane, value) -> n + N k."""
        return self._operand(1)
