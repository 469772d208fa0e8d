"""Text of one LLVM function: instructions, blocks, and what it refers to.

Within a block an instruction without effects that was emitted before is not emitted again: names
are immutable, so the same text means the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flydsl_emu.decode.instruction import Instruction

__all__ = ["FunctionBuilder", "ModuleParts"]


class ModuleParts:
    """What the functions of one module share.

    Attributes:
        declarations, globals: LLVM text by name.
        imports: Places of support routines in the context's table.
        instructions: For each routine of a whole instruction, one such instruction.
    """

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.imports: dict[str, int] = {}
        self.instructions: dict[str, Instruction] = {}

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Declare an external function, such as an intrinsic."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def slot(self, name: str) -> int:
        """Return the place of a support routine in the table of the context."""
        return self.imports.setdefault(name, len(self.imports))

    def text(self) -> str:
        """Return the declarations as LLVM text."""
        return "\n".join((*self.globals.values(), *self.declarations.values())) + "\n"


class FunctionBuilder:
    """Collects the instructions of one function.

    Args:
        parts: What the module shares.

    Attributes:
        current: Label of the block that instructions go to.
    """

    def __init__(self, parts: ModuleParts) -> None:
        self.parts = parts
        self.lines: list[str] = []
        self.entry: list[str] = []
        self._known: dict[str, str] = {}
        self._next = 0
        self.current = "entry"

    def name(self) -> str:
        """Return a new name."""
        self._next += 1
        return f"%v{self._next}"

    def emit(self, text: str) -> str:
        """Emit an instruction without effects, or find it in the block; return its name."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self.name()
            self.lines.append(f"  {found} = {text}")
        return found

    def noted(self, key: str) -> bool:
        """Return whether the block has noted `key` before, and note it."""
        if key in self._known:
            return True
        self._known[key] = ""
        return False

    def effect(self, text: str) -> str:
        """Emit an instruction that has effects, or reads memory; return its name."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Emit an instruction without result."""
        self.lines.append(f"  {text}")

    def block(self, label: str) -> None:
        """Begin a block; nothing is known in it."""
        self._known.clear()
        self.join(label)

    def join(self, label: str) -> None:
        """Begin a block that the present one dominates: what is known stays so."""
        self.current = label
        self.lines.append(f"{label}:")

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """Let what is emitted inside be unknown outside, which it does not dominate."""
        known = dict(self._known)
        yield
        self._known = known

    @contextmanager
    def branch(self, condition: str, stem: str) -> Iterator[tuple[str, str]]:
        """Emit what the block emits for the case that a condition holds only.

        Yields:
            The label before, and the label after; nothing emitted inside is known outside.
        """
        inside, after = self.label(stem), self.label(f"{stem}.end")
        before = self.current
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        with self.scoped():
            self.join(inside)
            yield before, after

    def label(self, stem: str) -> str:
        """Return a new label."""
        self._next += 1
        return f"{stem}.{self._next}"

    def allocate(self, text: str) -> str:
        """Reserve stack memory in the function's entry; return its address."""
        name = self.name()
        self.entry.append(f"  {name} = alloca {text}, align 64")
        return name

    def intrinsic(self, name: str, result: str, *arguments: str) -> str:
        """Emit a call of an intrinsic without effects; arguments are ``type value``."""
        types = [_type_of(a) for a in arguments]
        self.parts.declare(name, result, types)
        return self.emit(f"call {result} @{name}({', '.join(arguments)})")


def _type_of(argument: str) -> str:
    """Return the type of ``type value``."""
    if argument.startswith(("<", "[", "{")):
        close = {"<": ">", "[": "]", "{": "}"}[argument[0]]
        return argument[: argument.index(close) + 1]
    return argument.split(" ", 1)[0]
