"""`IrText`: straight-line LLVM IR as text, where building and translating MLIR costs more."""

from __future__ import annotations

__all__ = ["IrText"]


class IrText:
    """Lines of a function's body, with fresh names for values and labels.

    Attributes:
        lines: The body so far.
        block: Label of the current basic block, for phis.
    """

    def __init__(self, block: str = "entry") -> None:
        self.lines: list[str] = []
        self.block = block
        self._count = 0

    def fresh(self, prefix: str) -> str:
        """Return a name that no other call returns."""
        self._count += 1
        return f"{prefix}{self._count}"

    def value(self, expression: str) -> str:
        """Append an instruction with a result and return the result's name."""
        name = self.fresh("%v")
        self.lines.append(f"  {name} = {expression}")
        return name

    def at(self, base: str, offset: int) -> str:
        """Return the pointer `offset` bytes after `base`."""
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def load(self, type_: str, base: str, offset: int) -> str:
        """Return the value at `offset` bytes after `base`."""
        return self.value(f"load {type_}, ptr {self.at(base, offset)}")

    def store(self, type_: str, value: object, base: str, offset: int) -> None:
        """Store a value at `offset` bytes after `base`."""
        self.lines.append(f"  store {type_} {value}, ptr {self.at(base, offset)}")

    def begin(self, label: str) -> None:
        """Begin the basic block called `label`; the block before must have ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the block with a conditional branch."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")
