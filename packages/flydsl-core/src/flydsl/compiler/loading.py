"""Loads an artifact on a device and makes the closure that launches it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from flydsl.codegen.machine_code import MappedCode
from flydsl.compiler.artifact import Artifact
from flydsl.compiler.dispatch import make_closure
from flydsl.errors import CompilerBug
from flydsl.plugins.payloads import ArgSpec
from flydsl.runtime import Placement
from flydsl.runtime.abi import ABI_VERSION, WANTS_EXTENTS, FlyHostContext

__all__ = ["load"]

# `char *` rather than `void *` for the arguments: ctypes then takes the packed bytes as they are.
_STUB_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)


def load(
    artifact: Artifact,
    specs: tuple[ArgSpec, ...],
    placement: Placement,
    *,
    check_static: bool = True,
) -> Callable[..., object]:
    """Load `artifact` on the device of `placement`.

    Args:
        artifact: What to load.
        specs: How each launcher argument is passed.
        placement: The runtime and device.
        check_static: Whether the closure compares compile-time values.

    Returns:
        ``call(*arguments)``; see `flydsl.compiler.dispatch.make_closure`.

    Raises:
        TargetError: The runtime cannot load the code object, or the stub cannot be mapped.
    """
    runtime, device = placement.runtime, placement.device
    module = runtime.load(artifact.code, device)
    count = len(artifact.kernels)
    functions = (ctypes.c_uint64 * max(count, 1))(*map(module.function, artifact.kernels))
    context = FlyHostContext(
        abi_version=ABI_VERSION,
        device=device,
        flags=WANTS_EXTENTS if runtime.wants_extents else 0,
        launch=runtime.launch_address(),
        functions=ctypes.addressof(functions),
    )
    mapped = MappedCode(artifact.stub)

    def failure() -> BaseException:
        error = runtime.take_error()
        return error or CompilerBug(
            f"the launch of {artifact.launcher} failed without a reason", code="FLY-B443"
        )

    def current_stream() -> int:
        return runtime.current_stream(device)

    return make_closure(
        specs,
        {
            "stub": _STUB_TYPE(mapped.address),
            "context": ctypes.addressof(context),
            "failure": failure,
            "current_stream": current_stream,
            "kept": (module, functions, context, mapped),
        },
        implicit_stream=artifact.implicit_stream,
        check_static=check_static,
    )
