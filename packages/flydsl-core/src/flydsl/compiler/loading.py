"""Loads an artifact on a device and makes the closures that launch it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flydsl.codegen.machine_code import MachineCode, MappedCode
from flydsl.compiler.direct import Direct, bind_template, make_direct
from flydsl.compiler.dispatch import make_closure
from flydsl.diagnostics import user_location
from flydsl.errors import CompilerBug, FlyDSLError, UserValueError
from flydsl.runtime.abi import ABI_VERSION, DIMENSIONS, REFUSED, WANTS_EXTENTS, FlyHostContext

if TYPE_CHECKING:
    from flydsl.compiler.artifact import Artifact
    from flydsl.compiler.direct_template import Template
    from flydsl.plugins.payloads import ArgSpec
    from flydsl.runtime import DeviceRuntime, LoadedModule, Placement
    from flydsl.runtime.output import OutputChannel, OutputSite

__all__ = ["Launcher", "LoadedArtifact"]

Launch = Callable[..., object]

# `char *` rather than `void *` for the arguments: ctypes then takes the packed bytes as they are.
_STUB_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)


class Launcher(NamedTuple):
    """The host side of an artifact; see `flydsl.compiler.artifact.Artifact` for the fields."""

    name: str
    kernels: tuple[str, ...]
    stub: MachineCode
    implicit_stream: bool
    sites: tuple[OutputSite, ...] = ()


class LoadedArtifact:
    """A launcher with its kernels on a device, ready for closures to launch.

    Args:
        launcher: What to launch.
        runtime: The runtime that has loaded the kernels.
        module: The loaded module; unloaded again where the launcher cannot be made.
        device: Index of the device.
        synchronous: Launches have finished when they return.

    Raises:
        TargetError: The stub cannot be mapped.
    """

    def __init__(
        self,
        launcher: Launcher,
        runtime: DeviceRuntime,
        module: LoadedModule,
        device: int,
        *,
        synchronous: bool = False,
    ) -> None:
        self._launcher, self._runtime, self._device = launcher, runtime, device
        self._synchronous = synchronous
        try:
            functions, context = self._prepared(module)
            mapped = MappedCode(launcher.stub)
        except BaseException:
            with contextlib.suppress(FlyDSLError):
                module.unload()
            raise
        self._stub = _STUB_TYPE(mapped.address)
        self._context = ctypes.addressof(context)
        self._kept = (module, functions, context, mapped)
        self._direct = Direct(
            stub=mapped.address,
            context=self._context,
            failure=self._failure,
            current_stream=self._current_stream,
            kept=self,
            holds=getattr(runtime, "holds_interpreter", False),
        )

    def _prepared(self, module: LoadedModule) -> tuple[ctypes.Array[Any], FlyHostContext]:
        """Return the handles of the kernels, and what the stub needs."""
        kernels, runtime, device = self._launcher.kernels, self._runtime, self._device
        count = len(kernels)
        functions = (ctypes.c_uint64 * max(count, 1))(*map(module.function, kernels))
        context = FlyHostContext(
            abi_version=ABI_VERSION,
            device=device,
            flags=WANTS_EXTENTS if runtime.wants_extents else 0,
            launch=runtime.launch_address(),
            functions=ctypes.addressof(functions),
            driver=runtime.driver_address(device),
            output=self._open_channel(),
        )
        return functions, context

    @classmethod
    def load(cls, artifact: Artifact, placement: Placement) -> LoadedArtifact:
        """Load an artifact.

        Raises:
            TargetError: The runtime cannot load the code object, or the stub cannot be mapped.
        """
        launcher = Launcher(
            artifact.launcher,
            artifact.kernels,
            artifact.stub,
            artifact.implicit_stream,
            artifact.sites,
        )
        runtime, device = placement.runtime, placement.device
        module = runtime.load(artifact.code, device)
        return cls(launcher, runtime, module, device, synchronous=placement.info.emulated)

    def _open_channel(self) -> int:
        """Return the address of the device's output buffer; 0 for programs that do not print."""
        self._channel: OutputChannel | None = None
        if not self._launcher.sites:
            return 0
        from flydsl.runtime.output import channel_of

        self._channel = channel_of(self._runtime, self._device)
        self._channel.register(self._launcher.sites)
        return self._channel.address

    def direct(self, specs: Sequence[Any], *, check_static: bool = True) -> Launch | None:
        """Return the native closure; see `flydsl.compiler.direct.make_direct`."""
        return make_direct(
            specs,
            self._direct,
            implicit_stream=self._launcher.implicit_stream,
            check_static=check_static,
        )

    def bound(self, template: Template, objects: Sequence[object]) -> Launch | None:
        """Return the native closure of a template; see `flydsl.compiler.direct.bind_template`."""
        return bind_template(template, objects, self._direct)

    def closures(
        self, specs: tuple[ArgSpec, ...], *, check_static: bool = True
    ) -> tuple[Callable[..., object], ...]:
        """Return functions ``call(*arguments)`` to try in turn until one does not return `MISS`.

        The last one is `flydsl.compiler.dispatch.make_closure`'s; before it comes, if it can be
        made, the native one, which accepts no more arguments than the last. A program that prints
        has only the last one, which also delivers the output.

        Args:
            specs: How each launcher argument is passed.
            check_static: Whether the closures compare compile-time values.
        """
        direct = self.direct(specs, check_static=check_static)
        closure = make_closure(
            specs,
            {
                "stub": self._stub,
                "context": self._context,
                "failure": self._failure,
                "current_stream": self._current_stream,
                "kept": self,
            },
            implicit_stream=self._launcher.implicit_stream,
            check_static=check_static,
        )
        if self._channel is not None:
            return (self._delivering(closure, self._channel),)
        return (closure,) if direct is None else (direct, closure)

    def _delivering(
        self, launch: Callable[..., object], channel: OutputChannel
    ) -> Callable[..., object]:
        """Return `launch` with the delivery of what kernels print and assert."""
        synchronous = self._synchronous

        def call(*arguments: object) -> object:
            try:
                result = launch(*arguments)
            except FlyDSLError as error:
                # A failed assertion explains why the launch failed.
                channel.deliver(error)
                raise
            if result is None and synchronous:
                channel.deliver()
            return result

        return call

    def _current_stream(self) -> int:
        return self._runtime.current_stream(self._device)

    def _failure(self, status: int) -> BaseException:
        error = self._refusal(status) if status <= REFUSED else self._runtime.take_error(status)
        if error is None:
            error = CompilerBug(
                f"the launch of {self._launcher.name} failed without a reason",
                code="FLY-B443",
                value=status,
            )
        if isinstance(error, FlyDSLError):
            error.with_location(user_location())
        return error

    def _refusal(self, status: int) -> FlyDSLError | None:
        """Return the error for a launch that the stub itself refused."""
        index = REFUSED - status
        if index >= len(DIMENSIONS):
            return None
        what = DIMENSIONS[index]
        return UserValueError(
            f"{self._launcher.name} computes a {what} that cannot be launched",
            code="FLY-U423",
            value=FlyHostContext.from_address(self._context).refused,
            allowed="0 to 2**31 - 1 bytes"
            if what == "smem"
            else f"{0 if what.startswith('grid') else 1} to 2**32 - 1",
            hint="an Int32 computation may have overflowed; compute with fx.Int64"
            if what.startswith("grid")
            else "",
        )
