"""The lowering from Fly and GPU operations to ROCDL, one module for each group of operations.

`convert` is the pass; `rules` loads the modules whose functions, decorated with `lowering.rule`,
lower one operation each. To lower another operation, add a rule to the module that fits, or a
module to the list in `rules`.
"""

from __future__ import annotations

__all__: list[str] = []
