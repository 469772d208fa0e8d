"""Tensors through the C functions that a library offers for DLPack exchange.

Source: DLPack 1.3, ``DLPackExchangeAPI``: a capsule on the tensor's type; among its functions is
one that fills a ``DLTensor`` without an owner, reference counts or synchronisation.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["Exchanged", "exchange_function", "exchanged", "negation_flag"]

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


class Exchanged(NamedTuple):
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


def exchange_function(kind: type) -> int:
    """Return the address of ``dltensor_from_py_object_no_sync`` for a type; 0 if it has none."""
    table = _functions(kind)
    return 0 if table is None else _word(table, _READ_WORD)


@functools.lru_cache(maxsize=32)
def _reader(kind: type) -> tuple[int, Callable[[object, int], int]] | None:
    """Return the address of a type's function and the function, or None if it has none."""
    function = exchange_function(kind)
    return (function, _READ(function)) if function else None


def exchanged(value: object) -> Exchanged | None:
    """Return what a tensor's library reports about it, or None if it cannot be asked this way."""
    kind: Any = type(value)
    reader = _reader(kind)
    if reader is None:
        return None
    function, read = reader
    tensor = _Tensor()
    try:
        if read(value, ctypes.addressof(tensor)):
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


# Flags -------------------------------------------------------------------------------------------
_HEADER_BYTES = 16
"""Of a Python object: its reference count and its type."""
_LOOKED_WORDS = 24
"""Of a tensor's structure, which is as long and ends with its flags."""
_MOST_DRAWS = 16


@functools.cache
def negation_flag(torch: Any) -> tuple[int, int, int] | None:
    """Return where torch's tensors say that they are negated views, which hold other values.

    Found by comparing tensors that are with tensors that are not, for torch promises no place.

    Args:
        torch: The module.

    Returns:
        The offset in a tensor object of the address of its structure, the offset in there of a word
        of flags, and the flag; None if that is not found.
    """
    # A bit of an address can tell the same by chance, but not again with tensors elsewhere.
    kept: list[Any] = []
    offsets: set[int | None] = set()
    found = dict.fromkeys(range(_LOOKED_WORDS), -1)
    try:
        for drawn in range(_MOST_DRAWS):
            plain, negated = _samples(torch)
            kept += [plain, negated]
            offsets |= {_structure_offset(tensor) for tensor in (*plain, *negated)}
            for word in list(found):
                found[word] &= _common(_word(t._cdata, word) for t in negated)
                for tensor in plain:
                    found[word] &= ~_word(tensor._cdata, word)
                if not found[word]:
                    del found[word]
            if len(found) == 1 and drawn > 0:
                break
    except (AttributeError, RuntimeError, TypeError):  # a version of torch without one of these
        return None
    (offset, *others), flags = offsets, list(found.items())
    if offset is None or others or len(flags) != 1 or flags[0][1].bit_count() != 1:
        return None
    ((word, flag),) = flags
    return offset, 8 * word, flag


def _samples(torch: Any) -> tuple[list[Any], list[Any]]:
    """Return tensors of many kinds that are no negated views, and some that are."""
    ones = [torch.ones(2 + i, dtype=kind) for i, kind in enumerate((torch.float32, torch.float16))]
    large = torch.ones(3, 5, dtype=torch.complex64)
    negated = [torch._neg_view(tensor) for tensor in ones]
    negated += [large.conj().imag, torch._neg_view(large.real)[1:], torch._neg_view(ones[0])[:1]]
    plain = [*ones, large, large.real, large.imag, large.conj(), ones[0][1:], ones[1].view(1, 3)]
    plain += [tensor.detach() for tensor in ones]
    plain += [torch.neg(tensor) for tensor in negated]
    plain += [torch.ones(2, requires_grad=True), torch.ones(7, 1, dtype=torch.int32)]
    return plain, negated


def _structure_offset(tensor: Any) -> int | None:
    """Return where in a tensor object the address of its structure is."""
    for offset in range(_HEADER_BYTES, type(tensor).__basicsize__ - 7, 8):
        if _word(id(tensor), offset // 8) == tensor._cdata:
            return offset
    return None


def _common(words: Iterable[int]) -> int:
    return functools.reduce(int.__and__, words)
