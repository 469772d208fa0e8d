"""A key for operations in dictionaries.

The bindings hash an operation by its contents, so its hash changes with its operands; its address
does not while it lives.
"""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["identity"]

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def identity(op: Any) -> int:
    """Return a number that only this operation has while it lives."""
    address: int = _pointer(op._CAPIPtr, b"mlir.ir.Operation._CAPIPtr")
    return address
