"""The ``toy`` target: kernels become host functions that loop over blocks and threads.

Modules: `plugin` (the hooks), `target` (the `Target`), `lowering` (the pass
``convert-fly-to-toy``), `emission` (module to code object), `runtime` (loads and launches), `ops`
(the ``fx.toy`` namespace). It runs threads one after another, so it refuses barriers and shared
memory.

A distribution exposes it with one entry point::

    [project.entry-points.flydsl]
    toy = "flydsl.testing.fake_target.plugin"
"""

from __future__ import annotations

from flydsl.testing.fake_target.target import ToyTarget

__all__ = ["ToyTarget"]
