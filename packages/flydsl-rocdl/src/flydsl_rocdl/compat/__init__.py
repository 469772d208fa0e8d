"""Interfaces of older kernels, kept with a `DeprecationWarning` that names what to write instead.

`buffer_ops` has raw buffer descriptors with offsets in elements, `raw_ops` the matrix and LDS
instructions under their ROCDL names. To keep another one, add its module here and warn in each
function.
"""

from __future__ import annotations

from flydsl_rocdl.compat import buffer_ops, raw_ops

__all__ = ["buffer_ops", "raw_ops"]
