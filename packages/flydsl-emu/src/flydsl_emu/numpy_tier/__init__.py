"""The numpy tier: interprets code objects on arrays that hold all waves of a batch.

`NumpyTier` runs launches. `arithmetic`, `lanes`, `matrices` and `memory` are the vector API on
arrays; `operands` and `binding` turn an instruction into a closure; `engine` schedules waves; `run`
sets batches up. An opcode needs no change here: see `flydsl_emu.semantics`.
"""

from __future__ import annotations

from flydsl_emu.numpy_tier.run import NumpyTier

__all__ = ["NumpyTier"]
