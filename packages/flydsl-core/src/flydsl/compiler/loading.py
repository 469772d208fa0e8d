"""Loads an artifact on a device and makes the closures that launch it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from flydsl.codegen.machine_code import MappedCode
from flydsl.compiler.artifact import Artifact
from flydsl.compiler.direct import Direct, make_direct
from flydsl.compiler.dispatch import make_closure
from flydsl.diagnostics import user_location
from flydsl.errors import CompilerBug, FlyDSLError
from flydsl.plugins.payloads import ArgSpec
from flydsl.runtime import Placement
from flydsl.runtime.abi import ABI_VERSION, WANTS_EXTENTS, FlyHostContext

if TYPE_CHECKING:
    from flydsl.runtime.output import OutputChannel

__all__ = ["LoadedArtifact"]

# `char *` rather than `void *` for the arguments: ctypes then takes the packed bytes as they are.
_STUB_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)


class LoadedArtifact:
    """An artifact on a device, ready for closures to launch.

    Args:
        artifact: What to load.
        placement: The runtime and device.

    Raises:
        TargetError: The runtime cannot load the code object, or the stub cannot be mapped.
    """

    def __init__(self, artifact: Artifact, placement: Placement) -> None:
        self.artifact = artifact
        self._runtime, self._device = placement.runtime, placement.device
        runtime = placement.runtime
        module = runtime.load(artifact.code, placement.device)
        count = len(artifact.kernels)
        functions = (ctypes.c_uint64 * max(count, 1))(*map(module.function, artifact.kernels))
        context = FlyHostContext(
            abi_version=ABI_VERSION,
            device=placement.device,
            flags=WANTS_EXTENTS if runtime.wants_extents else 0,
            launch=runtime.launch_address(),
            functions=ctypes.addressof(functions),
            driver=runtime.driver_address(placement.device),
            output=self._open_channel(placement),
        )
        mapped = MappedCode(artifact.stub)
        self._stub = _STUB_TYPE(mapped.address)
        self._context = ctypes.addressof(context)
        self._kept = (module, functions, context, mapped)
        self._direct = Direct(
            stub=mapped.address,
            context=self._context,
            failure=self._failure,
            current_stream=self._current_stream,
            kept=self,
        )

    def _open_channel(self, placement: Placement) -> int:
        """Return the address of the device's output buffer; 0 for programs that do not print."""
        self._channel: OutputChannel | None = None
        self._synchronous = placement.info.emulated
        if not self.artifact.sites:
            return 0
        from flydsl.runtime.output import channel_of

        self._channel = channel_of(placement.runtime, placement.device)
        self._channel.register(self.artifact.sites)
        return self._channel.address

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
        implicit = self.artifact.implicit_stream
        direct = make_direct(
            specs, self._direct, implicit_stream=implicit, check_static=check_static
        )
        closure = make_closure(
            specs,
            {
                "stub": self._stub,
                "context": self._context,
                "failure": self._failure,
                "current_stream": self._current_stream,
                "kept": self,
            },
            implicit_stream=implicit,
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
        error = self._runtime.take_error(status)
        if error is None:
            error = CompilerBug(
                f"the launch of {self.artifact.launcher} failed without a reason",
                code="FLY-B443",
                value=status,
            )
        if isinstance(error, FlyDSLError):
            error.with_location(user_location())
        return error
