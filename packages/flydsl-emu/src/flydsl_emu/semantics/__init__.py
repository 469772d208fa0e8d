"""What each opcode means, written once over a vector API.

`api` is the vector API, `registry` the table and its signatures, `modifiers` the operand modifiers,
`bits` shared formulas; the other modules define opcodes by group. To add an opcode, put a function
with ``@opcode(mnemonic, signature)`` into the module of its group (a new module goes into
`catalogue`) and a test with an independent formula; no tier needs a change.
"""

from __future__ import annotations

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.registry import REGISTRY, Semantics, define, opcode

__all__ = ["REGISTRY", "Semantics", "Value", "VectorApi", "define", "find", "opcode"]
