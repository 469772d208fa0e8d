"""Import paths of the public FlyDSL API that differ from ours, as a table of aliases.

`ALIASES` maps such a path to the module that it stands for; the finder in
`flydsl.plugins.namespaces` serves it, so both paths give one module object. To add one, put it in
the table; the module must exist, and the parents of the path are made as needed. A path below an
alias follows it (``flydsl._mlir.dialects.arith`` is ``mlir.dialects.arith``). A path of
`PUBLIC_PATHS` that is neither a module nor an alias is refused with a list of what there is.
"""

from __future__ import annotations

from flydsl.compat.aliases import ALIASES, PUBLIC_PATHS, available, is_public

__all__ = ["ALIASES", "PUBLIC_PATHS", "available", "is_public"]
