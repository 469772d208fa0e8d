"""Tracing a launcher: from argument specifications to a module of Fly IR."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from flydsl.diagnostics import error_location
from flydsl.errors import CompilerBug, FlyDSLError, UserRuntimeError, UserTypeError
from flydsl.expr.ambient import Session, opened
from flydsl.expr.annotations import ConstexprKind, Stream
from flydsl.expr.values import argument_type
from flydsl.frontend.functions import JitFunction
from flydsl.frontend.scope import ModuleScope
from flydsl.frontend.traced import TracedModule, TracedParameter
from flydsl.plugins.payloads import ArgSpec

if TYPE_CHECKING:
    from flydsl.targets import Target

__all__ = ["trace"]


def trace(
    function: JitFunction,
    arguments: Mapping[str, ArgSpec],
    target: Target | None = None,
    context: Any = None,
    fast_math: str = "",
) -> TracedModule:
    """Trace a launcher.

    Args:
        function: The launcher.
        arguments: How each parameter is specialised and passed, in order.
        target: The target, for limits; None checks none.
        context: An MLIR context to build in; a thread's reusable context by default.
        fast_math: Fast-math flags of float operations outside any ``fx.fastmath``.

    Returns:
        The module with what the driver needs to know of it.

    Raises:
        FlyDSLError: The program is wrong; the error carries the user's location.
    """
    from flydsl import mlir

    start = time.process_time()
    ir = mlir.ir
    context = mlir.thread_context() if context is None else context
    with _collector_paused(), context, ir.Location.unknown(), _located(ir):
        session = Session(ir, context, target)
        with opened(session), _fast_math(fast_math):
            traced = _Tracer(session, function, arguments)
            traced.run()
    parameters = tuple(TracedParameter(name, spec) for name, spec in arguments.items())
    return TracedModule(
        module=traced.module,
        launcher=function.name,
        parameters=parameters,
        implicit_stream=traced.implicit_stream,
        kernels=tuple(traced.scope.kernels),
        dependencies=function.dependencies()
        .given_by(arguments.values())
        .extended(session.reached.values()),
        cpu_seconds=time.process_time() - start,
        sites=tuple(session.sites.values()),
    )


def _fast_math(flags: str) -> AbstractContextManager[None]:
    """Return the context that applies flags to float operations, if there are any."""
    if not flags:
        return nullcontext()
    from flydsl.expr.fast import fastmath

    return fastmath(flags)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's cyclic collector from walking the process's objects while tracing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _located(ir: Any) -> Iterator[None]:
    """Give errors the innermost user line of their traceback; wrap those of the bindings."""
    try:
        yield
    except FlyDSLError as error:
        if error.location is None:
            error.with_location(error_location(error))
        raise
    except RecursionError as error:
        raise UserRuntimeError(
            "calls of functions nest without end while tracing",
            code="FLY-U277",
            hint="a function that calls itself must stop by what is known while tracing; what is "
            "known at run time only cannot end it: use a loop",
            location=error_location(error),
        ) from None
    except ir.MLIRError as error:
        raise CompilerBug(
            f"the bindings refused an operation: {error}",
            code="FLY-B205",
            location=error_location(error),
        ) from error


class _Tracer:
    """Builds the module for one launcher."""

    def __init__(
        self, session: Session, function: JitFunction, arguments: Mapping[str, ArgSpec]
    ) -> None:
        self._session = session
        self._function = function
        self._arguments = arguments
        self.implicit_stream = True

    def run(self) -> None:
        """Trace the launcher and the kernels it launches."""
        session, ir = self._session, self._session.ir
        self.module = ir.Module.create()
        self.module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        at_end = ir.InsertionPoint(self.module.body)
        here = _definition_location(session, self._function)
        names = {"sym_name": ir.StringAttr.get("kernels")}
        kernels = session.create("gpu.module", (), (), names, None, 1, here, at_end)
        kernels_block = kernels.regions[0].blocks.append()
        bindings = [
            (parameter, self._arguments[parameter.name])
            for parameter in self._function.signature.parameters
        ]
        types: list[Any] = []
        builders: list[Callable[[Iterator[Any]], Any]] = []
        marks: list[dict[str, Any]] = []
        for parameter, spec in bindings:
            if not spec.ir_type and isinstance(parameter.annotation, ConstexprKind):
                parameter.annotation.check(parameter.name, spec.static)
            builders.append(_parameter(session, parameter.name, spec, (types, marks)))
            self.implicit_stream = self.implicit_stream and spec.ir_type != "stream"
        if self.implicit_stream:
            types.append(session.type("i64"))
            marks.append({})
        attributes = {
            "sym_name": ir.StringAttr.get(self._function.name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
        }
        if any(marks):
            attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(m) for m in marks])
        launcher = session.create("func.func", (), (), attributes, None, 1, here, at_end)
        entry = launcher.regions[0].blocks.append(*types, arg_locs=[here] * len(types))
        values = iter(list(entry.arguments))
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        streams: list[Stream] = []
        for (parameter, _), build in zip(bindings, builders, strict=True):
            value = build(values)
            if isinstance(value, Stream):
                streams.append(value)
            if parameter.kind == "positional":
                positional.append(value)
            else:
                keywords[parameter.name] = value
        stream = Stream(next(values)) if self.implicit_stream else streams[0]
        self.scope = ModuleScope(session, kernels_block, stream)
        session.module_scope = self.scope
        with ir.InsertionPoint(entry):
            returned = self._function.traceable()(*positional, **keywords)
            if returned is not None:
                raise UserTypeError(
                    f"launcher {self._function.name!r} returns a value",
                    code="FLY-U228",
                    hint="store results in a tensor argument",
                    location=self._function.location,
                )
            self.scope.require_launches()
            session.create("func.return", (), (), None, None, 0, here)


def _parameter(
    session: Session, name: str, spec: ArgSpec, lists: tuple[list[Any], list[dict[str, Any]]]
) -> Callable[[Iterator[Any]], Any]:
    """Append the IR types and marks of an argument; return what takes its values and makes it."""
    from flydsl.passes.mark_stores import READ_ONLY

    if not spec.ir_type:
        return lambda _values: spec.static
    if spec.parts:
        fields = {
            field: _parameter(session, f"{name}.{field}", part, lists) for field, part in spec.parts
        }
        kind: Any = spec.static
        return lambda values: kind(**{field: make(values) for field, make in fields.items()})
    types, marks = lists
    ir_type, build = argument_type(session, spec.ir_type)
    types.append(ir_type)
    marks.append({READ_ONLY: session.ir.StringAttr.get(name)} if spec.read_only else {})
    return lambda values: build(next(values))


def _definition_location(session: Session, function: JitFunction) -> Any:
    place = function.location
    return session.ir.Location.file(place.file, place.line, 1)
