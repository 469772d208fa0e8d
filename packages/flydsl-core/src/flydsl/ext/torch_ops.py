"""Operators of PyTorch made of launchers and of functions that launch.

``torch.compile`` and ``torch.export`` treat such an operator as one opaque call: nothing of it is
traced with fake tensors, there is no graph break, and its effects on its arguments are known.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import Pointer, Stream, Tensor
from flydsl.expr.annotations import ConstexprKind
from flydsl.expr.numeric import Boolean, Float, Integer
from flydsl.frontend import JitFunction

__all__ = ["launcher_op", "register_op"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*\Z")
_STATIC_TYPES: Mapping[object, str] = {bool: "bool", int: "SymInt", float: "float", str: "str"}

Operator = Any
"""A ``torch.library.CustomOpDef``: call it, or register more with its methods."""


def register_op(
    name: str,
    function: Callable[..., Any],
    *,
    fake: Callable[..., Any],
    mutates: Sequence[str] = (),
    backward: Callable[..., Any] | None = None,
    save: Callable[..., None] | None = None,
) -> Operator:
    """Register a function that launches kernels as an operator.

    Args:
        name: ``"namespace::name"``.
        function: Takes and returns tensors and plain values, with annotations from which PyTorch
            infers the schema. Tensors that it returns must be new, not its arguments.
        fake: Returns new tensors of the shapes, strides and types that `function` would return,
            without computing anything.
        mutates: Names of the arguments that `function` writes to. PyTorch differentiates only
            operators that write to none: a call with an argument that requires a gradient, while
            gradients are on, raises `UserValueError`.
        backward: ``backward(ctx, *gradients)`` returns the gradient of every argument or None.
        save: ``save(ctx, inputs, output)`` keeps on `ctx` what `backward` needs.

    Returns:
        The operator, also found as ``torch.ops.namespace.name``.

    Raises:
        UserValueError: The name is malformed, or `mutates` names no parameter.
        UserTypeError: The schema cannot be inferred, only `save` is given, or `backward` for a
            function that writes to its arguments.
    """
    _check_name(name)
    if backward is not None and mutates:
        raise UserTypeError(
            f"{name} writes to its arguments, and PyTorch differentiates no such operator",
            code="FLY-U495",
            value=tuple(mutates),
            hint="let the function return what it writes, as new tensors",
        )
    if save is not None and backward is None:
        raise UserTypeError(
            f"{name} saves for a backward pass that it does not have",
            code="FLY-U495",
            hint="pass backward= too",
        )
    try:
        operator = torch.library.custom_op(name, function, mutates_args=tuple(mutates))
    except ValueError as error:
        raise UserTypeError(
            f"PyTorch cannot make an operator for {name}: {error}",
            code="FLY-U496",
            hint="annotate every parameter and the result: torch.Tensor, int, float, bool, str, "
            "Optional and lists of these",
        ) from error
    operator.register_fake(fake)
    if mutates:
        _refuse_gradients(name, operator)
    if backward is not None:
        operator.register_autograd(backward, setup_context=save)
    return operator


def launcher_op(name: str, launcher: JitFunction, *, mutates: Sequence[str]) -> Operator:
    """Register a launcher as an operator that writes to some of its arguments and returns nothing.

    Tensor parameters take tensors, integer and float parameters numbers, compile-time parameters
    what their annotation says; those annotated ``X | None`` take None too. A stream parameter takes
    no argument: the operator runs on the current stream. PyTorch does not differentiate through it:
    a call with a tensor that requires a gradient, while gradients are on, raises `UserValueError`.
    `register_op` makes operators that have a gradient.

    Args:
        name: ``"namespace::name"``.
        launcher: A function decorated with ``flyc.jit`` whose parameters are annotated.
        mutates: Names of the tensor parameters that kernels write to. The first call with
            arguments of new types raises `UserValueError` if kernels write to others.

    Returns:
        The operator.

    Raises:
        UserValueError: The name is malformed, or `mutates` does not name tensor parameters.
        UserTypeError: A parameter has no annotation, or one that no operator can take.
    """
    _check_name(name)
    if not isinstance(launcher, JitFunction):
        raise UserTypeError(
            "launcher_op takes a function decorated with @flyc.jit", code="FLY-U496", value=launcher
        )
    parameters = launcher.signature.parameters
    tensors = [p.name for p in parameters if p.dsl_type is Tensor]
    for written in mutates:
        if written not in tensors:
            raise UserValueError(
                f"{name} cannot write to {written!r}",
                code="FLY-U497",
                value=written,
                allowed=", ".join(tensors) or "none: the launcher has no tensor parameters",
            )
    shown: list[str] = []
    for parameter in parameters:
        if parameter.annotation is not Stream:
            mark = f"(a{len(shown)}!)" if parameter.name in mutates else ""
            shown.append(f"{_schema_type(name, parameter).replace('*', mark)} {parameter.name}")
    taken = [p.annotation is not Stream for p in parameters]

    checked: set[Any] = set()

    def launch(*arguments: Any) -> None:
        given = iter(arguments)
        values = [next(given) if take else None for take in taken]
        kinds = tuple(x.dtype if isinstance(x, torch.Tensor) else type(x) for x in values)
        if kinds not in checked:
            _check_mutates(name, launcher, values, mutates)
            checked.add(kinds)
        launcher(*values)

    operator = torch.library.custom_op(
        name, launch, mutates_args=tuple(mutates), schema=f"({', '.join(shown)}) -> ()"
    )
    operator.register_fake(lambda *_: None)
    _refuse_gradients(name, operator)
    return operator


def _refuse_gradients(name: str, operator: Operator) -> None:
    """Refuse calls whose gradient would be lost: PyTorch has no formula for what they write.

    In graphs it is noticed when the graph is made.
    """
    overload = operator._opoverload
    names = [argument.name for argument in overload._schema.arguments if not argument.kwarg_only]
    below = torch._C._after_autograd_keyset

    def call(keys: Any, *arguments: Any, **named: Any) -> Any:
        # PyTorch leaves out arguments that are defaults, and refuses keyword-only tensors.
        if torch.is_grad_enabled():
            wanted = [n for n, a in zip(names, arguments, strict=False) if _requires_grad(a)]
            if wanted:
                # PyTorch shows only the message of what is raised while a graph is made.
                raise UserValueError(
                    f"{name} writes to its arguments, and no gradient would reach "
                    f"{', '.join(wanted)}: detach them, or use torch.no_grad()",
                    code="FLY-U550",
                    value=f"{', '.join(wanted)}, with requires_grad",
                    allowed="arguments without requires_grad",
                    hint="an operator that returns new tensors can have a gradient: make one with "
                    "register_op, which takes backward=",
                )
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & below, *arguments, **named)

    library: Any = torch.library.Library(name.partition(":")[0], "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # It takes the place of what PyTorch registers for operators without a formula.
        warnings.filterwarnings("ignore", message=".*[Oo]verrid", category=UserWarning)
        library.impl(overload._opname, call, "Autograd", with_keyset=True)
    # What a library registers ends with it.
    operator.flydsl_gradients = library


def _requires_grad(argument: Any) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(_requires_grad(one) for one in argument)
    return isinstance(argument, torch.Tensor) and argument.requires_grad


def _check_mutates(
    name: str, launcher: JitFunction, values: Sequence[Any], mutates: Sequence[str]
) -> None:
    """Refuse an operator whose kernels write to tensors that its schema says are only read."""
    from flydsl.compiler.writes import check_writes

    try:
        check_writes(launcher, launcher.bind(values, {}), mutates)
    except UserValueError as error:
        if error.code != "FLY-U341" or error.value in (None, *mutates):
            raise
        raise UserValueError(
            f"{name} writes to {error.value!r}, which mutates= does not name",
            code="FLY-U497",
            value=tuple(mutates),
            hint="name every tensor that kernels write to: PyTorch reorders and drops calls "
            "by what the schema says",
            location=error.location,
        ) from None


def _check_name(name: str) -> None:
    if not _NAME.match(str(name)):
        raise UserValueError(
            "the name of an operator is namespace::name", code="FLY-U497", value=name
        )


def _schema_type(name: str, parameter: Any) -> str:
    """Return the type of a parameter in a schema; ``*`` stands where an alias mark goes."""
    annotation = parameter.annotation if parameter.constexpr else parameter.dsl_type
    optional = "?" if parameter.optional else ""
    if annotation is Tensor:
        return f"Tensor*{optional}"
    if isinstance(annotation, ConstexprKind):
        found = _STATIC_TYPES.get(annotation.kind)
        if found is not None:
            return found
    elif isinstance(annotation, type) and issubclass(annotation, Boolean):
        return f"bool{optional}"
    elif isinstance(annotation, type) and issubclass(annotation, Integer):
        return f"SymInt{optional}"
    elif isinstance(annotation, type) and issubclass(annotation, Float):
        return f"float{optional}"
    hint = "pass the tensor instead of a pointer" if annotation is Pointer else ""
    raise UserTypeError(
        f"parameter {parameter.name!r} of {name} has no type that an operator can take",
        code="FLY-U496",
        value=parameter.annotation,
        allowed="fx.Tensor, integer and float classes, fx.Constexpr of bool, int, float or str",
        hint=hint,
    )
