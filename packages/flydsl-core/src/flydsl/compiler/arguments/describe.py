"""The core's answer to the hook ``flydsl_argument``: which kind of argument a value is."""

from __future__ import annotations

from flydsl.compiler.arguments.scalars import describe_number, describe_stream
from flydsl.compiler.arguments.structs import describe_struct
from flydsl.compiler.arguments.tensors import describe_tensor
from flydsl.compiler.arguments.wrappers import PointerArgument, TensorArgument
from flydsl.errors import UserTypeError
from flydsl.expr.annotations import Stream
from flydsl.expr.numeric import Numeric
from flydsl.expr.storage import is_struct_type
from flydsl.expr.structs import Struct
from flydsl.plugins.payloads import ArgSpec

__all__ = ["describe"]


def _named(annotation: object, name: str) -> bool:
    """Whether `annotation` is the class `flydsl.expr.<name>` (or one derived from it)."""
    if not isinstance(annotation, type):
        return False
    import flydsl.expr as fx

    wanted = getattr(fx, name)
    return isinstance(wanted, type) and issubclass(annotation, wanted)


def describe(value: object, annotation: object) -> ArgSpec:
    """Return how `value` is passed to a parameter annotated with `annotation`.

    Args:
        value: The argument.
        annotation: A DSL class (`fx.Tensor`, `fx.Int32`, `fx.Stream`, …); None when the parameter
            has no annotation.

    Raises:
        UserTypeError: The value does not fit the annotation, or cannot be passed at all.
        UserValueError: The value is out of range for the annotation.
    """
    if annotation is Stream:
        return describe_stream(value)
    if is_struct_type(annotation) or isinstance(value, Struct):
        struct = describe_struct(value, annotation if is_struct_type(annotation) else None)
        if struct is None or not (annotation is None or is_struct_type(annotation)):
            raise _mismatch(value, annotation)
        return struct
    if isinstance(annotation, type) and issubclass(annotation, Numeric):
        spec = describe_number(value, annotation)
    elif _named(annotation, "Tensor"):
        spec = value.spec() if isinstance(value, TensorArgument) else describe_tensor(value)
    elif _named(annotation, "Pointer"):
        spec = value.spec() if isinstance(value, PointerArgument) else None
    else:
        spec = _unannotated(value)
    if spec is None:
        raise _mismatch(value, annotation)
    return spec


def _unannotated(value: object) -> ArgSpec | None:
    if isinstance(value, TensorArgument | PointerArgument):
        return value.spec()
    if hasattr(value, "cuda_stream") or isinstance(value, Stream):
        return describe_stream(value)
    return describe_number(value, None) or describe_tensor(value)


def _mismatch(value: object, annotation: object) -> UserTypeError:
    if annotation is None:
        return UserTypeError(
            f"a {type(value).__name__} cannot be passed to a kernel",
            code="FLY-U409",
            value=value,
            allowed="tensors (torch, NumPy, DLPack, array interface), numbers, streams, and values "
            "of parameters annotated with fx.Constexpr",
        )
    name = getattr(annotation, "__name__", None) or str(annotation)
    return UserTypeError(
        f"a parameter annotated with {name} was given a {type(value).__name__}",
        code="FLY-U404",
        value=value,
        hint=f"declare it fx.{name} | None to pass None, which is known while tracing"
        if value is None
        else "annotate the parameter with fx.Constexpr[...] if it is a compile-time value",
    )
