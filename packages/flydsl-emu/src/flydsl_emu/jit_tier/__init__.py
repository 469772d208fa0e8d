"""The JIT tier: kernels compiled to machine code of the host.

`JitTier` runs launches. `arithmetic`, `lanes`, `memory` and `matrices` are the vector API as LLVM
IR; `registers`, `operands` and `binding` translate an instruction, `translate` a kernel, and
`outlining` makes routines of large instructions; `chains` are the sums of matrix products, which
`products` also offers to the numpy tier. The ``*_text`` modules are the routines that
generated code calls, `library` provides them. `host_code` compiles in the codegen worker and keeps
the result on disk, `link` makes it position independent. `worker` schedules waves on host threads,
`context` is what it shares with generated code. An opcode needs no change here: see
`flydsl_emu.semantics`.
"""

from __future__ import annotations

from flydsl_emu.jit_tier.tier import JitTier

__all__ = ["JitTier"]
