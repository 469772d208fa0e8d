"""Read tensors of unknown libraries through array interfaces and DLPack, without importing any."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

from flydsl.compiler.arguments.dtypes import element_by_code
from flydsl.config.core import COMPILE_ONLY
from flydsl.errors import UserTypeError, UserValueError

__all__ = [
    "View",
    "check_address",
    "check_unmasked",
    "element_strides",
    "is_foreign",
    "is_masked",
    "view_of",
]

_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "cuda", 11: "cpu", 13: "cuda"}
"""DLDeviceType to the device text: pinned host memory is host memory, ROCm goes by torch's name."""

_FOREIGN_ORDER = ">" if sys.byteorder == "little" else "<"
_TYPESTR_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}


@dataclass(frozen=True, slots=True)
class View:
    """Where a tensor is and how it is laid out.

    Attributes:
        address: Address of the first element.
        shape: Extents.
        strides: Strides in elements.
        dtype: Data-type name as in `flydsl.compiler.arguments.dtypes`.
        device: ``"cpu"``, ``"cuda:0"``, ….
        keep: Keeps the memory alive.
        read_only: Whether it must not be written.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    keep: object
    read_only: bool = False


def is_foreign(value: object) -> bool:
    """Return whether `value` offers one of the interfaces that `view_of` reads."""
    kind = type(value)
    return (
        hasattr(kind, "__dlpack__")
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(value, "__array_interface__")
    )


def view_of(value: Any) -> View:
    """Return the view that `value` exports, once its content is there.

    Version 3 of the CUDA array interface names the stream that works on the memory; what takes the
    array has to wait for it (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html,
    Synchronization).

    Raises:
        UserTypeError: It exports a layout or memory that kernels cannot use.
        UserValueError: It names no stream that there can be.
        TargetError: Work on its stream has failed.
    """
    check_unmasked(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        device = f"cuda:{_device_index(value)}"
        view = _from_interface(interface, value, device)
        stream = interface.get("stream")
        if stream is not None and not COMPILE_ONLY.get():
            _wait_for(stream, device)
        return view
    interface = getattr(value, "__array_interface__", None)
    # Extension types (bfloat16, float8) are raw bytes in an array interface but known to DLPack.
    if interface is not None and not (_opaque(interface) and hasattr(value, "__dlpack__")):
        return _from_interface(interface, value, "cpu")
    return _from_dlpack(value)


def _wait_for(stream: object, device: str) -> None:
    """Wait for a stream of a CUDA array interface; 1 is the legacy default stream, 2 the thread's.

    Raises:
        UserValueError: There is no such stream; the interface forbids 0.
        TargetError: Work on it has failed, or no runtime serves the device.
    """
    if type(stream) is not int or not 0 < stream < 1 << 64:
        raise UserValueError(
            "the array interface names no stream that there can be",
            code="FLY-U402",
            value=stream,
            allowed="None, 1, 2, or the handle of a stream",
        )
    from flydsl.runtime import choose_placement

    placement = choose_placement([device])
    placement.runtime.synchronize(stream, placement.device)


def is_masked(value: object) -> bool:
    """Return whether some elements of an array may count as missing."""
    return any(kind.__name__ == "MaskedArray" for kind in type(value).__mro__)


def check_unmasked(value: object) -> None:
    """Refuse arrays some elements of which count as missing."""
    if is_masked(value):
        raise UserTypeError(
            "kernels do not see the mask of this masked array",
            code="FLY-U402",
            value=type(value).__name__,
            allowed="plain arrays",
            hint="pass x.data, or x.filled(value)",
        )


def _device_index(value: Any) -> int:
    """Return the number of the GPU that an array is on; its array interface does not tell."""
    ask = getattr(value, "__dlpack_device__", None)
    return 0 if ask is None else int(ask()[1])


def _opaque(interface: dict[str, Any]) -> bool:
    return str(interface["typestr"])[1:2] == "V"


def _from_interface(interface: dict[str, Any], value: Any, device: str) -> View:
    typestr = str(interface["typestr"])
    kind, size = typestr[1], int(typestr[2:])
    if kind == "V":
        dtype = getattr(getattr(value, "dtype", None), "name", "") or typestr
    elif kind == "b":
        dtype = "bool"
    else:
        dtype = f"{_TYPESTR_KINDS.get(kind, kind)}{8 * size}"
    if size > 1 and typestr[0] == _FOREIGN_ORDER:
        raise UserTypeError(
            "tensors in the other byte order cannot be passed to a kernel",
            code="FLY-U401",
            value=typestr,
        )
    shape = tuple(int(extent) for extent in interface["shape"])
    steps = interface.get("strides")
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise UserTypeError(
            "the tensor's array interface names no address",
            code="FLY-U402",
            value=value,
            hint=f"convert the {type(value).__name__} with numpy.asarray",
        )
    if interface.get("mask") is not None:
        raise UserTypeError(
            "kernels do not see the mask of this array", code="FLY-U402", value=type(value).__name__
        )
    if steps is None:
        strides = _row_major(shape)
    else:
        strides = element_strides(tuple(int(step) for step in steps), size, value)
    return View(int(data[0]), shape, strides, dtype, device, value, bool(data[1]))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def element_strides(steps: tuple[int, ...], size: int, value: object) -> tuple[int, ...]:
    """Convert strides in bytes to strides in elements.

    Raises:
        UserTypeError: A stride is no multiple of the element size (a field of a record array).
    """
    if any(step % size for step in steps):
        raise UserTypeError(
            "a stride of the tensor is no multiple of its element size",
            code="FLY-U402",
            value=steps,
            allowed=f"multiples of {size} bytes",
            hint=f"copy the {type(value).__name__} into a plain array first",
        )
    return tuple(step // size for step in steps)


def check_address(address: int, shape: tuple[int, ...], device: str, value: object) -> None:
    """Refuse a tensor with elements but without memory, unless nothing is to be launched.

    Raises:
        UserValueError: The address is zero.
    """
    if address or 0 in shape or device == "meta" or COMPILE_ONLY.get():
        return
    raise UserValueError(
        f"this {type(value).__name__} has no memory: its address is 0",
        code="FLY-U402",
        value=f"shape {shape} on {device}",
        hint="tensors of a fake mode, and of a storage that was freed, cannot be launched on",
    )


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY, _IS_COPIED = 1, 2
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype = ctypes.c_int
_capsule_is.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer_in_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in_capsule.restype = ctypes.c_void_p
_pointer_in_capsule.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _from_dlpack(value: Any) -> View:
    try:
        capsule = _exported(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise UserTypeError(
            f"{type(value).__name__} does not export its memory through DLPack: {error}",
            code="FLY-U402",
        ) from error
    read_only = False
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer_in_capsule(capsule, b"dltensor_versioned"))
        # What is written to a copy is lost, too.
        read_only = bool(managed.flags & (_READ_ONLY | _IS_COPIED))
        tensor = managed.tensor
    else:
        tensor = _Tensor.from_address(_pointer_in_capsule(capsule, b"dltensor"))
    device = _DLPACK_DEVICES.get(tensor.device.kind)
    if device is None:
        raise UserTypeError(
            "the tensor is on a kind of device that is not supported",
            code="FLY-U402",
            value=f"DLPack device type {tensor.device.kind}",
            allowed="host, pinned host, CUDA and ROCm memory",
        )
    if device != "cpu":
        device = f"{device}:{tensor.device.index}"
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _row_major(shape)
    kind = tensor.dtype
    dtype = element_by_code(kind.code, kind.bits, kind.lanes)
    start = (tensor.data or 0) + tensor.byte_offset
    return View(start, shape, strides, dtype, device, capsule, read_only)


def _exported(value: Any) -> Any:
    """Return the DLPack capsule of an object, which marks read-only memory if it can."""
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # does not know the argument
        return value.__dlpack__()
