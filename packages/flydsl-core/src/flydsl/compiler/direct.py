"""Native closures: a launch as one call of a Python builtin made of machine code.

`make_direct` turns argument specifications into a plan for the routine of
`flydsl.compiler.direct_code`. It gives None where the interpreter or an argument is not one that
the routine can read; the Python closure of `flydsl.compiler.dispatch` does the same work then.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl.codegen.kept import kept_host
from flydsl.codegen.machine_code import MappedCode
from flydsl.compiler.direct_plan import BLOCK_BYTES, ENTRY, PLAN_START, TYPE_OFFSET, Kind, Word
from flydsl.compiler.dispatch import MISS, argument_format
from flydsl.errors import FlyDSLError

if TYPE_CHECKING:
    from flydsl.plugins.payloads import ArgLeaf, ArgSpec

__all__ = ["Direct", "make_direct"]

_FASTCALL = 0x80  # METH_FASTCALL
_MASK = (1 << 64) - 1
_API = {
    Word.AS_LONG_LONG: "PyLong_AsLongLong",
    Word.AS_UNSIGNED: "PyLong_AsUnsignedLongLong",
    Word.AS_DOUBLE: "PyFloat_AsDouble",
    Word.OCCURRED: "PyErr_Occurred",
    Word.CLEAR: "PyErr_Clear",
    Word.SAVE: "PyEval_SaveThread",
    Word.RESTORE: "PyEval_RestoreThread",
    Word.FROM_LONG: "PyLong_FromLong",
    Word.CALL: "PyObject_CallOneArg",
    Word.CALL_BARE: "PyObject_CallNoArgs",
    Word.GET_ATTRIBUTE: "PyObject_GetAttr",
    Word.DECREF: "Py_DecRef",
    Word.INCREF: "Py_IncRef",
    Word.GET_ITEM: "PyDict_GetItem",
}


class _MethodDef(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Plan(bytes):
    """A plan, and what it refers to by address."""

    kept: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Direct:
    """What a native closure launches.

    Attributes:
        stub: Address of the host stub.
        context: Address of its `FlyHostContext`.
        failure: Takes the stub's non-zero result and returns the exception behind it.
        current_stream: Returns the handle of the stream that is current.
        kept: Whatever must live as long as the closure.
        holds: Keep other Python threads from running during the launch.
    """

    stub: int
    context: int
    failure: Callable[[int], BaseException]
    current_stream: Callable[[], int] = int
    kept: object = None
    holds: bool = False


def _llvm_ir() -> str:
    from flydsl.compiler.direct_code import llvm_ir

    return llvm_ir()


class _Builtin:
    """The routine in executable memory; made once in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = False
        self._definition: _MethodDef | None = None
        self._code: MappedCode | None = None
        self.api: dict[Word, int] = {}

    def definition(self) -> _MethodDef | None:
        """Return the definition to make builtins from; None where that is not possible."""
        with self._lock:
            if not self._made:
                self._made = True
                self._definition = self._make()
        return self._definition

    def _make(self) -> _MethodDef | None:
        if not _supported():
            return None
        try:
            code = MappedCode(kept_host(ENTRY, _llvm_ir))
        except FlyDSLError:
            # No executable memory: then the host stubs fail too, with a message of their own.
            return None
        self._code = code
        for word, name in _API.items():
            function = getattr(ctypes.pythonapi, name)
            self.api[word] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return _MethodDef(b"launch", code.address, _FASTCALL, None)


_BUILTIN = _Builtin()


def _supported() -> bool:
    """Whether this interpreter's objects are laid out as the routine expects."""
    probe = object()
    ordinary = sys.implementation.name == "cpython" and "t" not in sys.abiflags
    return (
        ordinary
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and bytes.__basicsize__ - 1 == PLAN_START
        and ctypes.c_size_t.from_address(id(probe) + TYPE_OFFSET).value == id(object)
    )


def make_direct(
    specs: Sequence[ArgSpec],
    target: Direct,
    *,
    implicit_stream: bool,
    check_static: bool = True,
) -> Callable[..., object] | None:
    """Return ``call(*arguments)``, which launches or returns `MISS`; None if it cannot be made.

    Args:
        specs: One per launcher parameter, in order.
        target: What to launch.
        implicit_stream: Append the current stream to the argument block.
        check_static: Compare compile-time values too; otherwise those arguments are ignored. Of
            all but tuples and floats only the type is compared: whoever found the closure has
            looked it up by equal values.
    """
    layout = argument_format(specs, implicit_stream)
    if struct.calcsize(layout) > BLOCK_BYTES:
        return None
    definition = _BUILTIN.definition()
    if definition is None:
        return None
    offsets = _offsets(layout)
    kept: list[object] = [target]
    words: list[int] = []
    at = count = 0
    for spec in specs:
        places = offsets[at : at + len(spec.leaves)]
        at += len(spec.leaves)
        records = _records(spec, places, kept, check_static=check_static)
        if records is None:
            return None
        count += len(records)
        for kind, wanted, name, via, *rest in records:
            words += [kind, 5 + len(rest), wanted, name, via, *rest]
    head = _head(target, kept)
    head[Word.COUNT] = len(specs)
    head[Word.STREAM_OFFSET] = offsets[-1] if implicit_stream else -1
    head[Word.RECORD_COUNT] = count
    words = [word & _MASK for word in (*head, *words)]
    plan = _Plan(struct.pack(f"@{len(words)}Q", *words))
    plan.kept = tuple(kept)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p],
    )
    function: Callable[..., object] = make(ctypes.addressof(definition), plan, None)
    return function


def _offsets(layout: str) -> list[int]:
    """Return where each scalar of a `struct` format with natural alignment goes."""
    codes = layout.removeprefix("@")
    return [
        struct.calcsize("@" + codes[: i + 1]) - struct.calcsize("@" + code)
        for i, code in enumerate(codes)
    ]


def _head(target: Direct, kept: list[object]) -> list[int]:
    def fail(status: int) -> object:
        raise target.failure(status)

    kept.append(fail)
    head = [0] * Word.RECORDS
    head[Word.STUB], head[Word.CONTEXT] = target.stub, target.context
    head[Word.DONE], head[Word.MISS], head[Word.FAIL] = id(None), id(MISS), id(fail)
    head[Word.FALSE] = id(False)
    kept.append(target.current_stream)
    head[Word.STREAM] = id(target.current_stream)
    for word, address in _BUILTIN.api.items():
        head[word] = address
    if target.holds:
        head[Word.SAVE] = 0
    return head


def _records(
    spec: ArgSpec, places: Sequence[int], kept: list[object], *, check_static: bool
) -> list[list[int]] | None:
    """Return an argument's records, the fields of a struct after it; None if not all are native."""
    if not spec.parts:
        record = _record(spec, places, kept, check_static=check_static, looked_up=True)
        via = _via(spec.native, kept)
        return None if record is None else [[*record[:2], 0, via, *record[2:]]]
    native: Any = spec.native
    if native is None:
        return None
    kept += [native.type, native.value]
    records = [[Kind.STRUCT, id(native.type), 0, 0, id(native.value)]]
    at = 0
    for name, part in spec.parts:
        held = places[at : at + len(part.leaves)]
        at += len(part.leaves)
        record = _record(part, held, kept, check_static=True, looked_up=False)
        if record is None:
            return None
        kept.append(name)
        records.append([*record[:2], id(name), _via(part.native, kept), *record[2:]])
    return records


def _via(native: Any, kept: list[object]) -> int:
    """Return the name of the attribute that holds a number, or 0."""
    if native is None or native.kind not in ("integer", "float") or not native.value:
        return 0
    kept.append(native.value)
    return id(native.value)


def _record(
    spec: ArgSpec,
    places: Sequence[int],
    kept: list[object],
    *,
    check_static: bool,
    looked_up: bool,
) -> list[int] | None:
    """Return a record without words 1, 3 and 4; None if the value cannot be read natively.

    Args:
        spec: The argument or field.
        places: Offsets of its leaves.
        kept: Gets what the record refers to.
        check_static: Compare a compile-time value.
        looked_up: Compile-time values have been found by an equal one.
    """
    if not spec.ir_type:
        if not check_static:
            return [Kind.IGNORE, 0, 0]
        kept.append(spec.static)
        if looked_up and not isinstance(spec.static, (tuple, float)):
            return [Kind.IGNORE, id(type(spec.static)), 0]
        # The same object: of another one that is equal, 1.0 may be 1 and 0.0 be -0.0, which the
        # Python closure finds out.
        return [Kind.SAME, 0, id(spec.static)]
    native = spec.native
    if native is None or spec.parts:
        return None
    kept += [native.type, native.value]
    kind = id(native.type)
    if native.kind == "tensor":
        return _tensor(spec, places)
    (leaf,), (place,) = spec.leaves, places
    if native.kind == "attribute":
        return [Kind.ATTRIBUTE, kind, id(native.value), 0, place]
    if native.kind == "current-stream":
        return [Kind.CURRENT, kind, 0, 0, place]
    size = struct.calcsize("@" + leaf.format)
    if native.kind == "float":
        return [Kind.FLOAT, kind, 0, 0, place, size]
    if leaf.format == "Q":
        return [Kind.UNSIGNED, kind, 0, 0, place]
    low, high = _range(leaf, size)
    return [Kind.INTEGER, kind, low, high, place, size]


def _range(leaf: ArgLeaf, size: int) -> tuple[int, int]:
    bits = 8 * size
    signed = leaf.format.islower()
    low = -(1 << bits - 1) if signed else 0
    high = (1 << bits - signed) - 1
    return (
        low if leaf.low is None else max(low, leaf.low),
        high if leaf.high is None else min(high, leaf.high),
    )


def _tensor(spec: ArgSpec, places: Sequence[int]) -> list[int]:
    native: Any = spec.native
    leaves = [
        axis | stride << 8 | struct.calcsize("@" + leaf.format) << 16 | place << 32
        for (axis, stride), leaf, place in zip(
            native.sources, spec.leaves[1:], places[1:], strict=True
        )
    ]
    return [
        Kind.TENSOR,
        id(native.type),
        native.function,
        native.dtype,
        native.device,
        native.rank,
        native.alignment,
        native.unit,
        sum(1 << axis for axis in native.wide),
        places[0],
        len(leaves),
        id(native.value) if native.value else 0,
        *leaves,
    ]
