"""How values cross the edge of a dynamic region: joined types, flattening and rebuilding.

A `Spec` describes what two arms of an ``if``, or the entry and the end of a loop iteration, have in
common. Numbers, vectors, tensors and other DSL values become region results; lists, tuples, dicts,
namespaces and objects are taken apart and rebuilt; other Python values must not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import IRValue
from flydsl.expr.numeric import Boolean, Float32, Numeric, common_type
from flydsl.expr.numeric.promote import as_numeric, literal_type
from flydsl.frontend.missing import Missing, Unset
from flydsl.frontend.records import is_record, record_made, record_state

__all__ = ["Spec", "describe", "flatten", "join", "rebuild"]


@dataclass(slots=True)
class Spec:
    """What a carried variable is made of.

    Attributes:
        kind: ``"keep"`` (not carried), ``"number"``, ``"value"`` (a DSL value), ``"sequence"``,
            ``"mapping"``, ``"record"`` or ``"struct"``.
        detail: The kept object, the numeric class, a prototype, or the container class.
        keys: Keys of a mapping or attribute names of a record.
        parts: Specs of the items.
        types: IR types of a DSL value.
    """

    kind: str
    detail: Any
    keys: tuple[object, ...] = ()
    parts: list[Spec] = field(default_factory=list)
    types: list[Any] = field(default_factory=list)

    def same(self, other: Spec) -> bool:
        """Return whether two specs describe the same IR types and Python structure."""
        if self is other:
            return True
        if self.kind != other.kind or self.keys != other.keys:
            return False
        if self.kind == "value":
            return self.types == other.types and _key(self.detail) == _key(other.detail)
        if self.kind != "keep" and self.detail is not other.detail:
            return False
        pairs = zip(self.parts, other.parts, strict=False)
        return len(self.parts) == len(other.parts) and all(a.same(b) for a, b in pairs)


def describe(value: object) -> str:
    """Return the type of a value in words for messages."""
    if isinstance(value, Numeric):
        return type(value).__name__
    key = _key(value)
    if key is not None:
        return " ".join(str(part) for part in (key if isinstance(key, tuple) else (key,)))
    return "None" if value is None else type(value).__name__


def _key(value: object) -> object:
    method = getattr(type(value), "__fly_key__", None)
    return method(value) if method is not None else None


def _mismatch(name: str, a: object, b: object) -> UserTypeError:
    return UserTypeError(
        f"{name!r} is {describe(a)} on one path and {describe(b)} on the other",
        code="FLY-U212",
        hint="give it one type on all paths, for example with .to(...), and initialise it with a "
        "value of that type before the dynamic `if` or loop",
    )


def join(name: str, a: object, b: object, dynamic: bool = False) -> Spec:
    """Return the spec that fits both `a` and `b`.

    Args:
        name: The variable, for messages.
        a: Its value on one path (for a loop: before it).
        b: Its value on the other path (for a loop: after an iteration).
        dynamic: Make numbers run-time values even if both are equal constants (loops).

    Raises:
        UserTypeError: The types differ or the structure does.
    """
    if isinstance(a, Numeric) and type(a) is type(b):
        if a is b and not dynamic:
            return Spec("keep", a)
        if dynamic or not a.is_static():
            return _number(type(a))
    if isinstance(a, (Unset, Missing)) or isinstance(b, (Unset, Missing)):
        known = b if isinstance(a, (Unset, Missing)) else a
        if isinstance(known, (Unset, Missing)):
            return Spec("keep", known)
        return join(name, known, known, True)
    if a is b and not dynamic:
        return Spec("keep", a)
    number = _join_numbers(name, a, b, dynamic)
    if number is not None:
        return number
    if hasattr(type(a), "__fly_fields__"):
        return _join_structs(name, a, b, dynamic)
    if hasattr(type(a), "__fly_values__"):
        return _join_values(name, a, b)
    if type(a) is not type(b):
        raise _mismatch(name, a, b)
    if isinstance(a, (list, tuple)):
        assert isinstance(b, (list, tuple))
        if len(a) != len(b):
            raise _length(name, len(a), len(b))
        pairs = enumerate(zip(a, b, strict=True))
        parts = [join(f"{name}[{i}]", x, y, dynamic) for i, (x, y) in pairs]
        return _container(Spec("sequence", type(a), parts=parts), a, b)
    if isinstance(a, dict):
        assert isinstance(b, dict)
        if a.keys() != b.keys():
            raise _length(name, len(a), len(b))
        parts = [join(f"{name}[{k!r}]", a[k], b[k], dynamic) for k in a]
        return _container(Spec("mapping", type(a), tuple(a), parts), a, b)
    if a is not b and is_record(a):
        x, y = record_state(a), record_state(b)
        if x.keys() != y.keys():
            raise _mismatch(name, a, b)
        parts = [join(f"{name}.{k}", x[k], y[k], dynamic) for k in x]
        return Spec("record", type(a), tuple(x), parts)
    if a is b or _equal(a, b):
        return Spec("keep", a)
    raise _mismatch(name, a, b)


def _join_structs(name: str, a: Any, b: Any, dynamic: bool) -> Spec:
    if type(a) is not type(b) or _key(a) != _key(b):
        raise _mismatch(name, a, b)
    fields, others = a.__fly_fields__(), b.__fly_fields__()
    parts = []
    for entry in type(a).fields:
        x, y = fields[entry.name], others[entry.name]
        part = Spec("keep", x) if entry.constexpr else join(f"{name}.{entry.name}", x, y, dynamic)
        parts.append(part)
    return Spec("struct", type(a), tuple(fields), parts)


def _equal(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001  (a foreign __eq__ may fail in any way: then they differ)
        return False


def _container(spec: Spec, a: object, b: object) -> Spec:
    """Keep an identical container whose items are all kept, so that its identity survives."""
    if a is b and all(part.kind == "keep" for part in spec.parts):
        return Spec("keep", a)
    return spec


def _length(name: str, a: int, b: int) -> UserTypeError:
    return UserTypeError(
        f"{name!r} has {a} items on one path and {b} on the other",
        code="FLY-U214",
        hint="a container cannot grow or shrink in a dynamic region; build it with "
        "range_constexpr or const_expr, or give it its full length before",
    )


def _join_numbers(name: str, a: object, b: object, dynamic: bool) -> Spec | None:
    kind_a: type[Numeric] | None = type(a) if isinstance(a, Numeric) else literal_type(a)
    kind_b: type[Numeric] | None = type(b) if isinstance(b, Numeric) else literal_type(b)
    if kind_a is None and kind_b is None:
        return None
    if kind_a is None or kind_b is None:
        raise _mismatch(name, a, b)
    weak_a, weak_b = not isinstance(a, Numeric), not isinstance(b, Numeric)
    if kind_a is not kind_b and not (weak_a or weak_b):
        raise _mismatch(name, a, b)
    if not dynamic and _static(a) and _static(b) and weak_a == weak_b and type(a) is type(b):
        x, y = as_numeric(a), as_numeric(b)
        assert x is not None
        assert y is not None
        if x.value == y.value and str(x.value) == str(y.value):
            return Spec("keep", a)
    if (kind_a is Boolean) != (kind_b is Boolean):
        raise _mismatch(name, a, b)
    if weak_a and weak_b:
        kind = Float32 if kind_a.is_float or kind_b.is_float else common_type(kind_a, kind_b)
        return _number(kind)
    kind, weak = (kind_b, kind_a) if weak_a else (kind_a, kind_b)
    if weak_a != weak_b and weak.is_float and not kind.is_float:
        raise _mismatch(name, a, b)
    return _number(kind)


@cache
def _number(kind: type[Numeric]) -> Spec:
    """Return the spec of numbers of a class, which is never changed."""
    return Spec("number", kind)


def _static(value: object) -> bool:
    return not isinstance(value, Numeric) or value.is_static()


def _join_values(name: str, a: Any, b: Any) -> Spec:
    if type(a) is not type(b) or _key(a) != _key(b):
        raise _mismatch(name, a, b)
    kinds = [value.type for value in a.__fly_values__()]
    if a is not b:
        others = [value.type for value in b.__fly_values__()]
        if kinds != others:
            raise UserTypeError(
                f"{name!r} has different types on two paths",
                code="FLY-U212",
                value=(", ".join(map(str, kinds)), ", ".join(map(str, others))),
                hint="make layout, alignment and address space the same before the region",
            )
    return Spec("value", a, types=kinds)


def flatten(name: str, spec: Spec, value: Any) -> list[IRValue]:
    """Return the IR values of `value` as `spec` says; conversions go to the insertion point.

    Raises:
        UserTypeError: `value` does not fit `spec`.
    """
    if spec.kind == "keep":
        return []
    if isinstance(value, (Unset, Missing)):
        return _defaults(name, spec)
    if spec.kind == "number":
        if type(value) is spec.detail:
            return [value.ir_value()]
        number = as_numeric(value)
        if number is None:
            raise _mismatch(name, value, spec.detail)
        if isinstance(value, Numeric):
            return [number.to(spec.detail).ir_value()]
        return [spec.detail(value).ir_value()]
    if spec.kind == "value":
        values: list[IRValue] = value.__fly_values__()
        return values
    items = _items(spec, value)
    out: list[IRValue] = []
    for part, item in zip(spec.parts, items, strict=True):
        out.extend(flatten(name, part, item))
    return out


def _items(spec: Spec, value: Any) -> Sequence[Any]:
    if spec.kind == "sequence":
        return list(value)
    if spec.kind == "struct":
        source = value.__fly_fields__()
    else:
        source = value if spec.kind == "mapping" else record_state(value)
    return [source[key] for key in spec.keys]


def _defaults(name: str, spec: Spec) -> list[IRValue]:
    """Return any values of the right types: what no path will read."""
    if spec.kind == "number":
        return [spec.detail.static(spec.detail.zero).ir_value()]
    if spec.kind == "value":
        from flydsl.expr.emit import emit

        return [emit("ub.poison", kind, ()) for kind in spec.types]
    out: list[IRValue] = []
    for part in spec.parts:
        out.extend(_defaults(name, part))
    return out


def rebuild(spec: Spec, values: Iterator[IRValue]) -> Any:
    """Return the Python value that `spec` describes, made from region results or arguments."""
    if spec.kind == "keep":
        return spec.detail
    if spec.kind == "number":
        return spec.detail.wrap(next(values))
    if spec.kind == "value":
        return spec.detail.__fly_rebuild__([next(values) for _ in spec.types])
    items = [rebuild(part, values) for part in spec.parts]
    if spec.kind == "sequence":
        named = getattr(spec.detail, "_make", None)  # a named tuple
        return named(items) if named is not None else spec.detail(items)
    if spec.kind == "mapping":
        return spec.detail(zip(spec.keys, items, strict=True))
    if spec.kind == "struct":
        return spec.detail(**dict(zip(map(str, spec.keys), items, strict=True)))
    return record_made(spec.detail, dict(zip(map(str, spec.keys), items, strict=True)))
