"""Checks of the arguments of ready operations, for all families of kernels.

Each names the argument in its error. Kinds are checked here, once for all families: what is an
array that kernels can work on, an integer, a number, a flag, a name, an object of a class. Which
values an operation takes is checked where the operation is stated.

Inside ``torch.compile`` only what decides the path is looked at: the operator that the call
becomes checks the rest when it runs.
"""

from __future__ import annotations

import itertools
import math
import numbers
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.ext import arrays

__all__ = [
    "as_flag",
    "as_integer",
    "as_number",
    "as_pair",
    "as_text",
    "check_arrays",
    "check_fields",
    "check_instance",
    "check_no_gradient",
    "check_results_apart",
    "compiling",
    "element_type",
    "is_finite",
    "is_number",
    "through_pytorch",
    "unless_number",
]


def compiling() -> bool:
    """Return whether ``torch.compile`` or ``torch.export`` traces the call."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def through_pytorch(operator: bool | None, needed: Mapping[str, Any], **given: Any) -> bool:
    """Check the arrays of a call, and return whether it has to go through PyTorch's operator.

    It has to where PyTorch differentiates it, compiles around it, or only follows shapes: tensors
    on the meta device, of a fake mode or of another class without memory of its own.

    Args:
        operator: Whether there is an operator for a call like this one, without `out` and others;
            None where there is none for any call, and the caller checks gradients itself.
        needed: The arrays that there have to be by their names, first the one that all go with.
        **given: The others by their names; None is absent.

    Raises:
        UserTypeError: One is no array, of another library or device than the first, or has no plain
            memory where the kernels need it; or a derivative is asked for that there is not.
        UserValueError: A gradient is wanted, and this call would not be part of the graph.
    """
    followed = _checked(bool(operator), needed, given)
    first = next(iter(needed.values()))
    if operator is None or not arrays.is_torch(first):
        return False
    if not operator:
        _check_graph(needed, given)
        return False
    if followed or compiling():
        return True
    torch = sys.modules["torch"]
    # A mode that watches operators (shapes, graphs, counts of operations) would see no launch.
    return bool(torch._C._len_torch_dispatch_stack()) or arrays.differentiable(
        first, *needed.values(), *given.values()
    )


def check_arrays(needed: Mapping[str, Any], **given: Any) -> None:
    """Check the arrays of a call that launches nothing; arguments and errors of `through_pytorch`.

    Tensors that only have shapes are taken.
    """
    _checked(True, needed, given)


def _checked(operator: bool, needed: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Check arrays, and return whether one of them only has a shape."""
    present = list(needed.items())
    present += [(name, array) for name, array in given.items() if array is not None]
    first = present[0][1]
    for name, array in present:
        _check_kind(array, name)
    for name, array in present:
        if array is not first:
            arrays.check_same_library(array, first, name)
    if not arrays.is_torch(first) or compiling():
        return False
    only_shapes = [name for name, array in present if _only_shape(array, name, operator)]
    return bool(only_shapes)


def check_no_gradient(what: str, code: str, **given: Any) -> None:
    """Check that PyTorch does not want to differentiate a call that no gradient passes through.

    Args:
        what: The operation, in the plural.
        code: Of the error.
        **given: Arguments by their names; those that are no tensors are passed over.

    Raises:
        UserValueError: An argument requires a gradient, and gradients are on.
    """
    torch = sys.modules.get("torch")
    if torch is None or compiling() or not torch.is_grad_enabled():
        return
    wanted = [n for n, t in given.items() if isinstance(t, torch.Tensor) and t.requires_grad]
    if wanted:
        raise UserValueError(
            f"{what} have no gradient",
            code=code,
            value=", ".join(wanted),
            allowed="arguments without requires_grad",
            hint="detach them, or use torch.no_grad()",
        )


def _check_graph(needed: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse gradients for a call that leaves PyTorch's graph, as PyTorch's own `out` does."""
    torch = sys.modules["torch"]
    if not torch.is_grad_enabled() or compiling():
        return
    tensors = (*needed.items(), *given.items())
    wanted = [n for n, t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]
    if wanted:
        raise UserValueError(
            "a call with out, a stream or a configuration is no part of PyTorch's graph, and no "
            "gradient would pass through it",
            code="FLY-U550",
            value=f"{', '.join(wanted)}, with requires_grad",
            allowed="arguments without requires_grad, or a call without those options",
            hint="leave the options away, detach the arguments, or use torch.no_grad()",
        )


def _check_kind(array: Any, name: str) -> None:
    """Refuse what is neither a tensor nor a plain array of native numbers."""
    if arrays.is_torch(array, name):
        return
    from flydsl.compiler.arguments.foreign import is_masked

    wrong = hint = ""
    if is_masked(array):
        wrong, hint = "masked, and kernels do not see the mask", "pass x.data, or x.filled(value)"
    elif array.dtype.kind in "OSUMm" or array.dtype.names or not array.itemsize:
        wrong, hint = "no array of numbers", "pass numbers"
    elif any(step % array.itemsize for step in array.strides):
        wrong, hint = "a field of records: its strides are no whole elements", "pass a copy"
    elif not array.dtype.isnative:
        wrong, hint = "in the other byte order", "convert it: x.astype(x.dtype.newbyteorder('='))"
    if wrong:
        raise UserTypeError(
            f"{name} is {wrong}",
            code="FLY-U547",
            value=f"{type(array).__name__} of {array.dtype}",
            allowed="plain arrays and tensors",
            hint=hint,
        )


def _only_shape(tensor: Any, name: str, operator: bool) -> bool:
    """Return whether a tensor has a shape only; refuse what kernels cannot read otherwise.

    Raises:
        UserTypeError: It has no plain memory, and no operator takes it.
    """
    torch = sys.modules["torch"]
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    if wrapped or _has_tangent(torch, tensor):
        what, hint = "is mapped by torch.vmap", "pass the batch as an axis of the array"
        if not wrapped or _is_derived(torch, tensor):
            what = "is differentiated by torch.func or in forward mode"
            hint = "use torch.autograd: call backward() on a result, or torch.autograd.grad"
        raise _without_memory(tensor, name, what, hint)
    dispatching = type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
    if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
        from flydsl.compiler.arguments.tensors import check_torch

        try:
            check_torch(tensor)
        except UserTypeError as error:
            raise _without_memory(
                tensor, name, error.message.removeprefix("this torch tensor "), error.hint
            ) from None
    if not (dispatching or tensor.device.type == "meta"):
        if tensor.is_neg() or tensor.is_conj():
            what = "is a negated or conjugated view, whose memory holds other values"
            raise _without_memory(tensor, name, what, f"pass {name}.resolve_neg().resolve_conj()")
        return False
    if not operator:
        where = "is on the meta device" if tensor.device.type == "meta" else "is of a class"
        raise _without_memory(
            tensor, name, f"{where} without elements in memory",
            "pass tensors with memory; only shapes are followed without out= and stream=, by "
            "operations that are operators of PyTorch",
        )  # fmt: skip
    return True


def _without_memory(tensor: Any, name: str, what: str, hint: str) -> UserTypeError:
    return UserTypeError(
        f"{name} {what}",
        code="FLY-U547",
        value=f"{type(tensor).__name__} on {tensor.device}",
        allowed="strided tensors in memory",
        hint=hint,
    )


def _has_tangent(torch: Any, tensor: Any) -> bool:
    """Return whether forward-mode differentiation follows a tensor: operators would drop it."""
    forward = torch.autograd.forward_ad
    if forward._current_level < 0:
        return False
    return forward.unpack_dual(tensor).tangent is not None


def _is_derived(torch: Any, tensor: Any) -> bool:
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_gradtrackingtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def check_results_apart(**results: Any) -> None:
    """Check that arrays that one call writes to share no element.

    Args:
        **results: The arrays by their names; None is absent. Of other libraries than the first:
            left to other checks.

    Raises:
        UserValueError: Two of them do.
    """
    present = [(name, array) for name, array in results.items() if array is not None]
    if len(present) < 2 or compiling():
        return
    for (name, array), (other, second) in itertools.combinations(present, 2):
        if arrays.is_torch(array, name) == arrays.is_torch(second, other) and arrays.overlap(
            array, second
        ):
            raise UserValueError(
                f"{name} and {other} are written by the same call, and share memory",
                code="FLY-U548",
                value=f"shapes {tuple(array.shape)} and {tuple(second.shape)}",
                allowed="results that have no element in common",
                hint=f"pass another array for {other}, or a copy",
            )


def is_number(value: object) -> bool:
    """Return whether a value is a real number, not a truth value and not an array."""
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float, numbers.Real))


def is_finite(value: object) -> bool:
    """Return whether a value is a real number (see `is_number`) that a float holds."""
    if not is_number(value):
        return False
    try:
        # math.isfinite would end a graph in which the number may change.
        return -math.inf < float(value) < math.inf  # type: ignore[arg-type]
    except OverflowError:
        return False


def unless_number(value: Any) -> Any:
    """Return None for a number, else the value: of arguments that are arrays or numbers."""
    return None if is_number(value) else value


def _refuse(value: object, name: str, kind: str, allowed: str = "", hint: str = "") -> Any:
    if not hint and hasattr(value, "item") and hasattr(value, "shape"):
        hint = "pass a number of Python, such as x.item()"
    raise UserTypeError(
        f"{name} is no {kind}",
        code="FLY-U549",
        value=value,
        allowed=allowed or f"{kind}s",
        hint=hint,
    )


def as_integer(value: Any, name: str) -> int:
    """Return an integer, of Python or NumPy, as Python's.

    Raises:
        UserTypeError: It is something else.
    """
    if type(value) is int or compiling():
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        _refuse(value, name, "integer")
    return int(value)


def as_number(value: Any, name: str) -> float:
    """Return a real number, of Python or NumPy, as Python's float.

    Raises:
        UserTypeError: It is something else.
    """
    if type(value) is float or compiling():
        return value  # type: ignore[no-any-return]
    if not is_number(value):
        _refuse(value, name, "number")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def as_flag(value: Any, name: str) -> bool:
    """Return a truth value, of Python or NumPy, as Python's.

    Raises:
        UserTypeError: It is something else; truthiness of others is not asked for.
    """
    if type(value) is bool or compiling():
        return value  # type: ignore[no-any-return]
    if type(value).__name__ not in ("bool", "bool_") or getattr(value, "shape", ()) != ():
        _refuse(value, name, "truth value", "True, False")
    return bool(value)


def as_text(value: Any, name: str) -> str:
    """Return a text.

    Raises:
        UserTypeError: It is something else.
    """
    if not isinstance(value, str):
        _refuse(value, name, "text")
    return value  # type: ignore[no-any-return]


def as_pair(value: Any, name: str) -> tuple[Any, Any]:
    """Return a pair, given as a tuple or list of two.

    Raises:
        UserTypeError: It is something else.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        _refuse(value, name, "pair")
    return value[0], value[1]


def check_instance(value: Any, kind: type, name: str, hint: str = "") -> None:
    """Check that an argument is an object of a class.

    Raises:
        UserTypeError: It is something else.
    """
    if not isinstance(value, kind):
        raise UserTypeError(
            f"{name} is no {kind.__name__}",
            code="FLY-U549",
            value=value,
            allowed=f"objects of class {kind.__name__}",
            hint=hint,
        )


def element_type(value: Any, name: str) -> str:
    """Return the name of an element type that is given as a name, or as NumPy or PyTorch have it.

    Args:
        value: Such as ``"bfloat16"``, ``torch.bfloat16``, ``numpy.float32``,
            ``numpy.dtype("float16")`` or ``ml_dtypes.bfloat16``.
        name: Of the argument, in errors.

    Raises:
        UserTypeError: It is no element type.
    """
    if isinstance(value, str):
        return value.removeprefix("torch.")
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.dtype):
        return str(value).rpartition(".")[2]
    if numpy is not None and isinstance(value, (type, numpy.dtype)):
        found = numpy.dtype(value)
        if found.kind != "O" and found.isnative:
            return str(found.name)
    refused: str = _refuse(
        value, name, "element type",
        "a name such as 'float32', or an element type of NumPy, ml_dtypes or PyTorch",
    )  # fmt: skip
    return refused


_CHECKS: dict[type, Callable[[Any, str], Any]] = {
    int: as_integer,
    float: as_number,
    bool: as_flag,
    str: as_text,
}


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass by their annotations; numbers of NumPy become Python's.

    Integers, numbers, truth values, texts, classes, and each of these or None, are checked; other
    annotations say what is checked elsewhere. Call it first in ``__post_init__``.

    Raises:
        UserTypeError: A field is of another kind.
    """
    if compiling():
        return
    kind: Any = type(instance)
    for name, check, optional in _checks_of(kind):
        value = getattr(instance, name)
        if value is None and optional:
            continue
        found = check(value, name)
        if found is not value:
            object.__setattr__(instance, name, found)


_NAMES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
_SHORT = {name: (_CHECKS[kind], False) for name, kind in _NAMES.items()} | {
    f"{name} | None": (_CHECKS[kind], True) for name, kind in _NAMES.items()
}
"""Checks by annotation, without evaluating it: that is most of the time of a first look."""
_NOT_CHECKED = frozenset({"Any", "Any | None", "object"})


@cache
def _checks_of(kind: Any) -> tuple[tuple[str, Callable[[Any, str], Any], bool], ...]:
    found = []
    hints: dict[str, Any] | None = None
    texts: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        texts |= vars(base).get("__annotations__", {})
    for name, text in texts.items():
        if text in _SHORT:
            found.append((name, *_SHORT[text]))
            continue
        if text in _NOT_CHECKED or (isinstance(text, str) and "[" in text):
            continue
        hints = hints or typing.get_type_hints(kind)
        hint = hints[name]
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        plain = [option for option in options if option is not type(None)]
        checked = len(plain) == 1 and isinstance(plain[0], type) and plain[0] not in (Any, object)
        if not checked or typing.get_args(plain[0]):
            continue
        check = _CHECKS.get(plain[0]) or _instance_check(plain[0])
        found.append((name, check, len(plain) < len(options)))
    return tuple(found)


def _instance_check(kind: type) -> Callable[[Any, str], Any]:
    def check(value: Any, name: str) -> Any:
        check_instance(value, kind, name)
        return value

    return check
