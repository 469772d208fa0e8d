"""Native closures: a launch as one call of a Python builtin made of machine code.

`make_direct` turns argument specifications into a plan for the routine of
`flydsl.compiler.direct_code`. It gives None where the interpreter or an argument is not one that
the routine can read; the Python closure of `flydsl.compiler.dispatch` does the same work then.
"""

from __future__ import annotations

import array
import ctypes
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl.codegen.kept import kept_host
from flydsl.codegen.machine_code import MappedCode
from flydsl.compiler.direct_plan import ENTRY, PLAN_START, SHORT_TICKS, TYPE_OFFSET, Word
from flydsl.compiler.direct_template import Template, make_template
from flydsl.compiler.dispatch import MISS
from flydsl.errors import FlyDSLError
from flydsl.locking import ProcessLock

if TYPE_CHECKING:
    from flydsl.plugins.payloads import ArgSpec

__all__ = ["Direct", "bind_template", "make_direct"]

_FASTCALL = 0x80  # METH_FASTCALL
_MASK = (1 << 64) - 1
_HAS_TICKS = platform.machine().lower() in ("x86_64", "amd64")
"""Elsewhere programs may not read the processor's cycle counter."""
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


class _Interpreter:
    """What the routine calls of Python."""

    def __init__(self) -> None:
        self.addresses: dict[int, int] = {}
        for word, name in _API.items():
            function = getattr(ctypes.pythonapi, name)
            # What a function's object holds is its address.
            self.addresses[int(word)] = ctypes.c_uint64.from_buffer(function).value
        self.builtin = ctypes.pythonapi.PyCFunction_NewEx
        self.builtin.restype = ctypes.py_object
        self.builtin.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


_INTERPRETER = _Interpreter() if _supported() else None
"""Found at import, for it takes a part of the time of a first call; None: see `_supported`."""


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
        self._lock = ProcessLock()
        self._made = False
        self._definition: _MethodDef | None = None
        self._code: MappedCode | None = None

    def definition(self) -> _MethodDef | None:
        """Return the definition to make builtins from; None where that is not possible."""
        with self._lock:
            if not self._made:
                self._made = True
                self._definition = self._make()
        return self._definition

    def _make(self) -> _MethodDef | None:
        if _INTERPRETER is None:
            return None
        try:
            code = MappedCode(kept_host(ENTRY, _llvm_ir))
        except FlyDSLError:
            # No executable memory: then the host stubs fail too, with a message of their own.
            return None
        self._code = code
        return _MethodDef(b"launch", code.address, _FASTCALL, None)


_BUILTIN = _Builtin()


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
        check_static: See `flydsl.compiler.direct_template.make_template`.
    """
    made = make_template(specs, implicit_stream=implicit_stream, check_static=check_static)
    return None if made is None else bind_template(*made, target)


def bind_template(
    template: Template, objects: Sequence[object], target: Direct
) -> Callable[..., object] | None:
    """Return what `make_direct` does, for a template.

    Args:
        template: The records.
        objects: What its references mean: the objects themselves, or addresses of functions.
        target: What to launch.
    """
    definition = _BUILTIN.definition()
    if definition is None or _INTERPRETER is None:
        return None
    kept: list[object] = [target, *objects]
    head = _head(template, target, kept)
    for word, place in _INTERPRETER.addresses.items():
        head[word] = place
    if target.holds:
        head[Word.SAVE] = 0
    words = array.array("Q", [word & _MASK for word in head])
    words.frombytes(template.words)
    for (number, kind, _), value in zip(template.references, objects, strict=True):
        address: Any = value if kind == "function" else id(value)
        words[Word.RECORDS + number] = address
    plan = _Plan(words.tobytes())
    plan.kept = tuple(kept)
    made: Callable[..., object] = _INTERPRETER.builtin(ctypes.addressof(definition), plan, None)
    return made


def _head(template: Template, target: Direct, kept: list[object]) -> list[int]:
    def fail(status: int) -> object:
        raise target.failure(status)

    kept.append(fail)
    head = [0] * Word.RECORDS
    head[Word.STUB], head[Word.CONTEXT] = target.stub, target.context
    head[Word.DONE], head[Word.MISS], head[Word.FAIL] = id(None), id(MISS), id(fail)
    head[Word.FALSE] = id(False)
    kept.append(target.current_stream)
    head[Word.STREAM] = id(target.current_stream)
    if _HAS_TICKS:
        # Long, until it is known better.
        ticks = ctypes.c_uint64(8 * SHORT_TICKS)
        kept.append(ticks)
        head[Word.TICKS] = ctypes.addressof(ticks)
    head[Word.COUNT], head[Word.RECORD_COUNT] = template.parameters, template.records
    head[Word.STREAM_OFFSET] = template.stream_offset
    return head
