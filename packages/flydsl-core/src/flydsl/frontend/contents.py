"""Hashes of what values hold, to compare them later and in other processes."""

from __future__ import annotations

import array
import collections
import contextvars
import enum
import functools
import hashlib
import itertools
import threading
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from flydsl.diagnostics import is_framework_module
from flydsl.frontend.eligible import is_user_class, is_user_module, rewritable
from flydsl.frontend.mangling import mangled

__all__ = [
    "CONTAINERS",
    "MEMOISED",
    "SCALARS",
    "Content",
    "attributes_of",
    "code_digest",
    "code_in",
    "content_of",
    "enum_attributes",
    "hashed",
    "in_order",
    "more_than_attributes",
    "same_scalar",
    "slots_of",
]

SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
MEMOISED = type(functools.lru_cache(len))
"""What `functools.cache` makes of a function: its results are those of the function."""
_MAX_DEPTH = 8
_SHORT = 64
_MAX_ARRAY_BYTES = 1 << 20
_PLAIN = frozenset(SCALARS)
_PRINTED = {("torch", "dtype"), ("torch", "device"), ("numpy", "dtype")}
"""Immutable values of libraries that print all that they hold."""
_unique = itertools.count()
CONTAINERS = (
    *SCALARS, enum.Enum, list, tuple, dict, set, frozenset, functools.partial, collections.deque,
    bytearray,
)  # fmt: skip
"""What classes of the user's may be derived from that counts by more than its attributes."""
_WRITTEN_IN_PYTHON = frozenset(
    {
        collections.ChainMap, collections.UserDict, collections.UserList, collections.UserString,
        weakref.WeakKeyDictionary, weakref.WeakSet, weakref.WeakValueDictionary,
    }
)  # fmt: skip
"""Containers whose content is in their attributes."""
_ABSENT = object()
_ENUM = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_hash_"})
"""What every member of an enumeration has."""


class Content(NamedTuple):
    """What a value holds.

    Attributes:
        digest: Hash, or what it is the hash of.
        portable: Equal digests in another process mean equal content.
        mutable: The content may change while the object stays the same.
    """

    digest: str
    portable: bool
    mutable: bool


def hashed(text: str) -> str:
    """Return the hexadecimal SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def same_scalar(a: object, b: object) -> bool:
    """Whether two values are equal scalars; ``0.0`` and ``-0.0`` are not."""
    return type(a) is type(b) and isinstance(a, SCALARS) and (a == b) and repr(a) == repr(b)


def code_digest(code: types.CodeType) -> str:
    """Return a hash of what a code object does; positions and file names do not take part."""
    text = repr(
        (
            (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
            (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
            (len(code.co_code), len(code.co_exceptiontable)),
            [_constant(constant) for constant in code.co_consts],
        )
    )
    digest = hashlib.sha256(code.co_code)
    digest.update(code.co_exceptiontable)
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _constant(value: object) -> str:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, frozenset):
        return f"frozenset{sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    return f"{type(value).__name__}:{value!r}"


def content_of(
    value: object, names: frozenset[str] | None = None, path: tuple[int, ...] = ()
) -> Content:
    """Return what a value holds.

    Args:
        value: Anything.
        names: Of an object of a class of the user's, only the attributes of these names count;
            None means all.
        path: Identities of the objects around it, which it may refer back to.
    """
    if type(value) in _PLAIN:
        text = f"{type(value).__name__}:{value!r}"
        # What prints in a few characters is its own digest: quotes keep strings apart.
        return Content(text if len(text) <= _SHORT else hashed(text), True, False)
    if len(path) >= _MAX_DEPTH or id(value) in path:
        return Content(hashed(type(value).__qualname__), len(path) < _MAX_DEPTH, True)
    held = _held(value, names, (*path, id(value)))
    extended = isinstance(value, CONTAINERS) and not isinstance(value, enum.Enum)
    if not extended or not is_user_class(type(value)):
        return held
    # A class of the user's that is a container, and has attributes too.
    more = in_order(attributes_of(value, names) or {})
    extra = _combined(held.digest, more, names, (*path, id(value)), mutable=bool(more))
    return extra._replace(
        portable=held.portable and extra.portable, mutable=held.mutable or extra.mutable
    )


def _held(value: object, names: frozenset[str] | None, inner: tuple[int, ...]) -> Content:
    if isinstance(value, enum.Enum):
        more = in_order(enum_attributes(value, names))
        name = f"{type(value).__qualname__}.{value.name}"
        return _combined(name, [value.value, *more], names, inner, mutable=bool(more))
    if isinstance(value, SCALARS):
        return Content(hashed(_constant(value)), True, False)
    if isinstance(value, (tuple, list, collections.deque)):
        kind = type(value).__qualname__
        return _combined(kind, value, names, inner, mutable=not isinstance(value, tuple))
    if isinstance(value, (set, frozenset)):
        items = [content_of(item, names, inner) for item in value]
        text = f"set{sorted(item.digest for item in items)}"
        return Content(hashed(text), all(item.portable for item in items), isinstance(value, set))
    if isinstance(value, (dict, types.MappingProxyType)):
        flat = [part for pair in value.items() for part in pair]
        flat.append(getattr(value, "default_factory", None))
        return _combined(f"{type(value).__qualname__}", flat, names, inner, mutable=True)
    return _callable(value, names, inner) or _object(value, names, inner)


def code_in(value: object, path: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield the user's classes of a value and of all that it holds, and code that it holds.

    The code of the first reads the values; the others, classes, functions and modules of the
    user's, are read or called.

    Args:
        value: Anything.
        path: Identities of the objects around it, which it may refer back to.
    """
    kind = type(value)
    if kind in _PLAIN or len(path) >= _MAX_DEPTH or id(value) in path:
        return
    held: Iterable[object] = ()
    if isinstance(value, (dict, types.MappingProxyType)):
        held = [part for pair in value.items() for part in pair]
    elif isinstance(value, (tuple, list, set, frozenset, collections.deque)):
        held = value
    elif isinstance(value, type):
        if is_user_class(value):
            yield value
        return
    elif isinstance(value, functools.partial):
        held = (value.func, value.args, value.keywords)
    elif isinstance(value, types.FunctionType):
        if rewritable(value):
            yield value
        return
    elif isinstance(value, types.ModuleType):
        if is_user_module(value.__name__):
            yield value
        return
    if is_user_class(kind):
        yield kind
        held = (*held, *(attributes_of(value, None) or {}).values())
    inner = (*path, id(value))
    for item in held:
        yield from code_in(item, inner)


def _combined(
    name: str,
    items: Iterable[object],
    names: frozenset[str] | None,
    path: tuple[int, ...],
    *,
    mutable: bool = False,
) -> Content:
    parts = [content_of(item, names, path) for item in items]
    text = f"{name}[{','.join(part.digest for part in parts)}]"
    changes = mutable or any(part.mutable for part in parts)
    return Content(hashed(text), all(part.portable for part in parts), changes)


def _callable(value: Any, names: frozenset[str] | None, path: tuple[int, ...]) -> Content | None:
    """Return what a function, class or module is; None for other values."""
    if isinstance(value, types.FunctionType):
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        held = [value.__defaults__, value.__kwdefaults__, *cells]
        name = f"{value.__module__}.{value.__qualname__}:{code_digest(value.__code__)}"
        return _combined(name, held, names, path)
    if isinstance(value, types.MethodType):
        return _combined("method", [value.__func__, value.__self__], names, path)
    if isinstance(value, MEMOISED):
        return _combined("memoised", [value.__wrapped__], names, path)
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return _combined("partial", [value.func, value.args, value.keywords], names, path)
    if isinstance(value, type):
        return Content(hashed(f"class {value.__module__}.{value.__qualname__}"), True, False)
    if isinstance(value, types.ModuleType):
        return Content(hashed(f"module {value.__name__}"), True, False)
    if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType)):
        owner = getattr(value, "__self__", None)
        bound = owner is not None and not isinstance(owner, (types.ModuleType, type))
        name = f"builtin {getattr(value, '__module__', '')}.{value.__qualname__}"
        return _combined(name, [owner] if bound else [], names, path)
    return None


def _current(variable: contextvars.ContextVar[object]) -> object:
    try:
        return variable.get()
    except LookupError:  # it has no value here
        return "<no value>"


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return "<empty cell>"


def _object(value: Any, names: frozenset[str] | None, path: tuple[int, ...]) -> Content:
    kind = type(value)
    module = str(kind.__module__)
    name = f"{module}.{kind.__qualname__}"
    if is_framework_module(module) and not hasattr(kind, "__fly_key__"):
        # Our own static values (numbers, layouts, atoms, streams) print all that they hold.
        shown = repr(value)
        return Content(hashed(f"{name}:{shown}"), " at 0x" not in shown, False)
    root = module.partition(".")[0]
    scalar = root == "numpy" and kind.__name__ != "ndarray" and hasattr(kind, "itemsize")
    if scalar or (root, kind.__name__) in _PRINTED or (root == "numpy" and "dtype" in name.lower()):
        return Content(hashed(f"{name}:{value!r}"), True, False)
    # Of the class: whoever writes `__getattr__` does not expect to be asked for these.
    if hasattr(kind, "_version") and hasattr(kind, "data_ptr"):
        # A torch tensor counts the changes of its content.
        return Content(hashed(f"{name}:{id(value)}:{value._version}"), False, True)
    if isinstance(value, (bytearray, array.array)):
        code = getattr(value, "typecode", "")
        return Content(hashed(f"{name}:{code}:{hashlib.sha256(value).hexdigest()}"), True, True)
    if isinstance(value, contextvars.ContextVar):
        # What it is in the context of the call, where the trace reads it.
        return _combined(f"{name}:{value.name}", [_current(value)], names, path, mutable=True)
    if hasattr(kind, "tobytes") and hasattr(kind, "nbytes"):
        if getattr(getattr(value, "dtype", None), "hasobject", False):
            # Its bytes are addresses.
            return _combined(
                f"{name}:{value.shape}", value.ravel().tolist(), names, path, mutable=True
            )
        if value.nbytes <= _MAX_ARRAY_BYTES:
            shape = f"{getattr(value, 'dtype', '')}{getattr(value, 'shape', '')}"
            data = hashlib.sha256(value.tobytes()).hexdigest()
            return Content(hashed(f"{name}:{shape}:{data}"), True, True)
        # Comparing it on every launch would cost more than compiling: it counts as changed.
        return Content(hashed(f"{name}:{next(_unique)}"), False, True)
    if isinstance(value, weakref.ref):
        return _combined(name, [value()], names, path, mutable=True)
    # Python's own methods are no part of the program, which names the attributes that they read.
    whole = kind in _WRITTEN_IN_PYTHON
    known = whole or is_user_class(kind) or kind in (types.SimpleNamespace, threading.local)
    attributes = attributes_of(value, None if whole else names) if known else None
    if attributes is None:
        return Content(hashed(name), False, False)
    return _combined(name, in_order(attributes), names, path, mutable=True)


def in_order(attributes: Mapping[str, Any]) -> list[Any]:
    """Return names and values of attributes, one after another, ordered by name."""
    return [part for pair in sorted(attributes.items()) for part in pair]


def enum_attributes(value: enum.Enum, names: frozenset[str] | None) -> dict[str, Any]:
    """Return the attributes of a member of an enumeration besides its value."""
    own = vars(value).items()
    return {k: v for k, v in own if k not in _ENUM and (names is None or k in names)}


def _own(value: object, name: str) -> Any:
    """Return an attribute without asking a `__getattr__`; `_ABSENT` if there is none."""
    try:
        return type(value).__getattribute__(value, name)
    except Exception:  # noqa: BLE001 - a user's own way to find attributes may raise anything
        return _ABSENT


def more_than_attributes(value: object) -> bool:
    """Return whether more than its attributes counts of an object of a class of the user's."""
    array = hasattr(type(value), "tobytes") or hasattr(type(value), "data_ptr")
    return array or isinstance(value, CONTAINERS)


def slots_of(kind: type) -> tuple[str, ...]:
    """Return the attributes that have a slot in objects of a class."""
    return _slots(kind.__mro__)


@functools.lru_cache(maxsize=128)
def _slots(classes: tuple[type, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for owner in classes:
        named = vars(owner).get("__slots__", ())
        every = (named,) if isinstance(named, str) else named
        found += [mangled(slot, owner.__name__) for slot in every]
    return tuple(found)


def attributes_of(value: Any, names: frozenset[str] | None) -> dict[str, Any] | None:
    """Return the attributes of an object that Python code can see; None if it has no such ones."""
    found: dict[str, Any] = {}
    seen = False
    for slot in slots_of(type(value)):
        seen = True
        held = _own(value, slot) if names is None or slot in names else _ABSENT
        if held is not _ABSENT:
            found[slot] = held
    own = _own(value, "__dict__")
    if isinstance(own, dict):
        seen = True
        found.update({k: v for k, v in own.items() if names is None or k in names})
    return found if seen else None
