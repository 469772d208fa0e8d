"""Interfaces of older kernels, kept with a `DeprecationWarning` that names what to write instead.

`buffer_ops` has raw buffer descriptors with offsets in elements. To keep another one, add its
module here and warn in each function.
"""

from __future__ import annotations

from flydsl_rocdl.compat import buffer_ops

__all__ = ["buffer_ops"]
