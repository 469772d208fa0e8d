"""What existing kernels of the public FlyDSL API use and ours would spell otherwise.

`names` lists legacy names of modules that exist (``fx.T``, ``fx.arith.maxsi``), implemented in
`operations`, `vectors` and `types`; `shared_memory`, `backends`, `device`, `environment`, `errors`,
`meta`, `protocol` and `dialects` stand for whole modules. A legacy name warns once per place and
names its replacement (`notices`). Nothing else in the core uses this package.

`ALIASES` maps such a path to the module that it stands for; the finder in
`flydsl.plugins.namespaces` serves it, so both paths give one module object. To add one, put it in
the table; the module must exist, and the parents of the path are made as needed. A path below an
alias follows it (``flydsl._mlir.extras.types`` is ``mlir.extras.types``). A path of
`PUBLIC_PATHS` that is neither a module nor an alias is refused with a list of what there is.
"""

from __future__ import annotations

from flydsl.compat.aliases import (
    ALIASES,
    LEGACY_PATHS,
    PUBLIC_PATHS,
    available,
    is_public,
    target_of,
    warn_of_path,
)

__all__ = [
    "ALIASES",
    "LEGACY_PATHS",
    "PUBLIC_PATHS",
    "available",
    "is_public",
    "target_of",
    "warn_of_path",
]
