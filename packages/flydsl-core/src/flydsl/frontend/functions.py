"""`jit` and `kernel`: the decorators and the objects that they make."""

from __future__ import annotations

import importlib
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from flydsl.diagnostics import user_location
from flydsl.errors import (
    CompilerBug,
    SourceLocation,
    UserRuntimeError,
    UserTypeError,
    UserValueError,
)
from flydsl.expr.ambient import current, in_trace
from flydsl.frontend.dependencies import Dependencies, collect_dependencies
from flydsl.frontend.eager import CAPTURE, capturing, ends_graph, run_eagerly
from flydsl.frontend.signature import Signature

if TYPE_CHECKING:
    from flydsl.frontend.launcher import KernelLauncher

__all__ = ["Driver", "JitFunction", "KernelFunction", "driver", "jit", "kernel", "set_driver"]

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*\Z")
_DRIVER_MODULE = "flydsl.compiler"


class Driver(Protocol):
    """What runs a launcher that is called outside a trace."""

    def call(self, function: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Compile `function` for these arguments if needed, and launch it."""
        ...


class _DriverSlot:
    """Holds the one driver of the process (set by `flydsl.compiler`)."""

    value: Driver | None = None


def set_driver(value: Driver) -> None:
    """Register the driver; called once when `flydsl.compiler` is imported."""
    _DriverSlot.value = value


def driver() -> Driver:
    """Return the registered driver, importing the compiler if nobody has yet."""
    if _DriverSlot.value is None:
        importlib.import_module(_DRIVER_MODULE)
    if _DriverSlot.value is None:
        raise CompilerBug(f"{_DRIVER_MODULE} registers no driver", code="FLY-B203")
    return _DriverSlot.value


class _Decorated:
    """What launchers and kernels share: the user's function, its signature, methods."""

    def __init__(self, function: FunctionType, instance: object = None) -> None:
        self.function = function
        self.instance = instance
        self._signature: Signature | None = None
        self._bound: dict[int, tuple[Any, Any]] = {}
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def module(self) -> str:
        """The function's module."""
        return self.function.__module__

    @property
    def qualname(self) -> str:
        """The function's qualified name."""
        return self.function.__qualname__

    @property
    def location(self) -> SourceLocation:
        """The ``def``."""
        code = self.function.__code__
        return SourceLocation(code.co_filename, code.co_firstlineno)

    @property
    def signature(self) -> Signature:
        """The parameters (annotations are evaluated at first use)."""
        if self._signature is None:
            self._signature = Signature.of(self.function)
        return self._signature

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every parameter in order, defaults applied.

        Raises:
            UserTypeError: The arguments do not fit the parameter list.
        """
        return self.signature.bind(args, kwargs)

    def traceable(self) -> Callable[..., Any]:
        """Return the rewritten function, bound to the instance for a method."""
        from flydsl.frontend.runtime import CACHE

        made = CACHE.rewritten(self.function, entry=True)
        if self.signature.method and self.instance is not None:
            return MethodType(made, self.instance)
        return made

    def _for_instance(self, instance: object) -> Any:
        """Return this function bound to an object, the same one every time."""
        if not self.signature.method:
            return self
        key = id(instance)
        found = self._bound.get(key)
        if found is not None and found[0]() is instance:
            return found[1]
        bound = self._copy(instance)
        try:
            reference: Any = weakref.ref(instance, lambda _: self._bound.pop(key, None))
        except TypeError:  # no weak references: keep the object
            reference = lambda: instance  # noqa: E731
        self._bound[key] = (reference, bound)
        return bound

    def _copy(self, instance: object) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.qualname}>"


class JitFunction(_Decorated):
    """A launcher: host code that computes launch geometry and launches kernels.

    Called inside a trace, its body is traced in place. Called outside, it is compiled for the
    arguments and run.

    Attributes:
        function: The user's function.
        instance: The object of a bound method, else None.
        dispatch: What a call outside a trace runs. The driver may replace it.
        state: For the driver.
    """

    def __init__(self, function: FunctionType, instance: object = None) -> None:
        super().__init__(function, instance)
        self.state: Any = None
        self.dispatch: Callable[..., Any] = self._first_call
        self._dependencies: Dependencies | None = None

    def dependencies(self) -> Dependencies:
        """Return what the function depends on; collected again only after something changed."""
        found = self._dependencies
        if found is None or not found.unchanged():
            found = self._dependencies = collect_dependencies(self.function, instance=self.instance)
        return found

    def recalled_dependencies(self) -> Dependencies:
        """Return `dependencies`; the first time from a scan by another process, where it holds."""
        if self._dependencies is None and self.instance is None:
            from flydsl.frontend.recall import recall_function

            self._dependencies = recall_function(self.function)
            return self._dependencies
        return self.dependencies()

    def _first_call(self, *args: Any, **kwargs: Any) -> object:
        return driver().call(self, args, kwargs)

    @ends_graph
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch, or inside a trace run the body in place."""
        if in_trace():
            return self.traceable()(*args, **kwargs)
        if CAPTURE in sys.modules and capturing():
            return run_eagerly(self.dispatch, args, kwargs)
        return self.dispatch(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self._for_instance(instance)

    def _copy(self, instance: object) -> JitFunction:
        return JitFunction(self.function, instance)


class KernelFunction(_Decorated):
    """A kernel: device code. Called in a launcher it returns a `KernelLauncher`.

    Attributes:
        symbol: Explicit symbol of the device function, or empty.
        known_block: Declared block size, or None.
        spills: What spilled registers mean: ``"report"``, ``"warn"`` or ``"error"``.
    """

    def __init__(
        self,
        function: FunctionType,
        symbol: str = "",
        known_block: tuple[int, int, int] | None = None,
        instance: object = None,
        spills: str = "report",
    ) -> None:
        super().__init__(function, instance)
        self.symbol = symbol
        self.known_block = known_block
        self.spills = spills

    def __call__(
        self,
        *args: Any,
        unit_attrs: Sequence[str] | None = None,
        value_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> KernelLauncher:
        """Bind the arguments of a launch.

        Args:
            *args: Positional arguments of the kernel.
            unit_attrs: Names of unit attributes for the device function.
            value_attrs: Further attributes; values bool, int (as i32), str, lists or IR attributes.
            **kwargs: Keyword arguments of the kernel.

        Raises:
            UserRuntimeError: Called outside a launcher.
            UserTypeError: The arguments do not fit the kernel's parameters.
        """
        session = current()
        if session is None:
            raise UserRuntimeError(
                f"kernel {self.name!r} is called outside a launcher",
                code="FLY-U223",
                location=user_location(),
                hint="call it in a @flyc.jit function and then .launch(grid=..., block=...)",
            )
        if session.kernel is not None:
            raise UserRuntimeError(
                f"kernel {self.name!r} is called inside kernel {session.kernel.name!r}",
                code="FLY-U223",
                location=user_location(),
                hint="make the shared part a plain function",
            )
        from flydsl.frontend.launcher import KernelLauncher

        attributes = dict(value_attrs or {})
        attributes.update(dict.fromkeys(unit_attrs or (), ()))
        if self.spills != "report":
            attributes["fly_spills"] = self.spills
        return KernelLauncher(self, self.bind(args, kwargs), attributes)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self._for_instance(instance)

    def _copy(self, instance: object) -> KernelFunction:
        return KernelFunction(self.function, self.symbol, self.known_block, instance, self.spills)


def _checked(function: object, decorator: str) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise UserTypeError(
            f"@flyc.{decorator} decorates plain Python functions",
            code="FLY-U224",
            value=function,
            hint="put it directly above the `def`, below other decorators",
        )
    return function


def jit(function: Callable[..., Any]) -> JitFunction:
    """Make a launcher of a function.

    Raises:
        UserTypeError: `function` is not a plain Python function.
    """
    return JitFunction(_checked(function, "jit"))


@overload
def kernel(function: Callable[..., Any]) -> KernelFunction: ...
@overload
def kernel(
    function: None = None,
    *,
    name: str | None = None,
    known_block_size: Sequence[int] | None = None,
    spills: Literal["report", "warn", "error"] = "report",
) -> Callable[[Callable[..., Any]], KernelFunction]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    known_block_size: Sequence[int] | None = None,
    spills: Literal["report", "warn", "error"] = "report",
) -> KernelFunction | Callable[[Callable[..., Any]], KernelFunction]:
    """Make a kernel of a function; use it bare or with arguments.

    Args:
        function: The function, when used bare.
        name: Symbol of the device function; default is ``<function name>_<number>``.
        known_block_size: Threads along x, y, z that every launch has.
        spills: What it means when registers do not suffice and values go through memory: it is in
            the report of the compiled function (``"report"``), a `PerformanceWarning` when
            compiling (``"warn"``), or a `TargetError` (``"error"``).

    Raises:
        UserTypeError: `function` is not a plain Python function, or an argument has a wrong type.
        UserValueError: `name` is not a symbol, the block size is not three positive ints, or
            `spills` is another word.
    """
    if name is not None and not _SYMBOL.match(str(name)):
        raise UserValueError(
            "a kernel name must be a symbol",
            code="FLY-U225",
            value=name,
            allowed="letters, digits, _ . $; not starting with a digit",
        )
    block = None if known_block_size is None else _known_block(known_block_size)
    if spills not in ("report", "warn", "error"):
        raise UserValueError(
            "spills says what spilled registers mean",
            code="FLY-U290",
            value=spills,
            allowed="report, warn, error",
        )

    def decorate(function: Callable[..., Any]) -> KernelFunction:
        return KernelFunction(_checked(function, "kernel"), name or "", block, None, spills)

    return decorate if function is None else decorate(function)


def _known_block(value: Any) -> tuple[int, int, int]:
    if not isinstance(value, (tuple, list)):
        raise UserTypeError(
            "known_block_size must be a sequence", code="FLY-U226", value=value, allowed="(x, y, z)"
        )
    if len(value) != 3:
        raise UserValueError(
            "known_block_size needs three elements",
            code="FLY-U226",
            value=value,
            allowed="(x, y, z)",
        )
    for item in value:
        if not isinstance(item, int) or isinstance(item, bool):
            raise UserTypeError("known_block_size needs ints", code="FLY-U226", value=value)
        if item <= 0:
            raise UserValueError("known_block_size must be positive", code="FLY-U226", value=value)
    return (value[0], value[1], value[2])
