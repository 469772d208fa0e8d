"""Tensors through the C functions that a library offers for DLPack exchange.

Source: DLPack 1.3, ``DLPackExchangeAPI``: a capsule on the tensor's type; among its functions is
one that fills a ``DLTensor`` without an owner, reference counts or synchronisation.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

__all__ = ["Exchanged", "exchanged"]

_ATTRIBUTE, _CAPSULE, _MAJOR = "__dlpack_c_exchange_api__", b"dlpack_exchange_api", 1
_READ_WORD = 5
"""Word of the structure: after the version, an older structure and three managing functions."""

_pointer_in_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in_capsule.restype = ctypes.c_void_p
_pointer_in_capsule.argtypes = (ctypes.py_object, ctypes.c_char_p)
_READ = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    """``DLTensor`` with the data type and the device as integers."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A tensor as its library's C function reports it.

    Attributes:
        function: Address of that function.
        address, shape, strides: As usual; strides count elements.
        dtype, device: ``DLDataType`` and ``DLDevice`` as integers.
    """

    function: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int
    device: int


def _functions(kind: type) -> int | None:
    """Return the address of a type's table, if this version of it can be used."""
    # A derived class may keep its data elsewhere; parameters are known to be plain tensors.
    plain = _ATTRIBUTE in vars(kind) or kind.__module__ == "torch.nn.parameter"
    capsule = getattr(kind, _ATTRIBUTE, None) if plain else None
    if capsule is None:
        return None
    try:
        address = _pointer_in_capsule(capsule, _CAPSULE)
    except ValueError:  # a capsule with another name
        return None
    major: int = ctypes.c_uint32.from_address(address).value
    return address if major == _MAJOR else None


def _word(table: int, word: int) -> int:
    value: int = ctypes.c_uint64.from_address(table + 8 * word).value
    return value


def exchanged(value: object) -> Exchanged | None:
    """Return what a tensor's library reports about it, or None if it cannot be asked this way."""
    table = _functions(type(value))
    function = 0 if table is None else _word(table, _READ_WORD)
    if not function:
        return None
    tensor = _Tensor()
    try:
        if _READ(function)(value, ctypes.addressof(tensor)):
            return None
    except Exception:  # noqa: BLE001 - whatever the library raises, there are other ways to ask
        return None
    if not tensor.strides and tensor.ndim:
        return None
    return Exchanged(
        function,
        tensor.data + tensor.byte_offset,
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]),
        tensor.dtype,
        tensor.device,
    )
