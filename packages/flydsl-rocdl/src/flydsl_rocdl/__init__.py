"""The AMD target of FlyDSL: facts, atoms, lowering to ROCDL, code objects.

Everything reaches the compiler through the hooks in `flydsl_rocdl.plugin`; kernel authors see this
distribution as ``fx.rocdl`` (`flydsl_rocdl.expr`). `arch` holds facts about architectures, `passes`
the lowering, `emit` the way from MLIR to a code object and `hsaco` the code-object format.
"""

from __future__ import annotations

__all__: list[str] = []
