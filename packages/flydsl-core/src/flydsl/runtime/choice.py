"""Chooses the device runtime of a call from where its tensors are (DESIGN §11.7).

Tensors of one call are on one device, and that device type's runtime is used; host tensors go to a
runtime that serves the host (an emulator) even where a GPU exists. Without tensors:
``FLYDSL_DEVICE``, else a device that is present, else an emulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from flydsl.config import core as settings
from flydsl.errors import CompilerBug, TargetError, UserValueError
from flydsl.plugins.manager import load_dotted, plugin_manager
from flydsl.plugins.payloads import ArgSpec, CodeObject, RuntimeInfo
from flydsl.runtime.protocol import DeviceRuntime

__all__ = ["Placement", "check_streams", "choose_placement", "open_runtime", "present_device"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a call runs.

    Attributes:
        info: The runtime's announcement.
        runtime: The runtime.
        device: Index of the device within the runtime.
    """

    info: RuntimeInfo
    runtime: DeviceRuntime
    device: int

    @property
    def name(self) -> str:
        """Text such as ``"hip:1"``."""
        return f"{self.info.name}:{self.device}"


def open_runtime(info: RuntimeInfo) -> DeviceRuntime:
    """Return the runtime that `info` announces; made once for a set of plugins.

    Raises:
        TargetError: The runtime cannot start (its driver library is missing, …).
        CompilerBug: The announced name yields something else than a runtime.
    """
    cache = plugin_manager().cache("runtimes")
    runtime = cache.get(info.name)
    if runtime is None:
        runtime = load_dotted(info.factory)()
        if not isinstance(runtime, DeviceRuntime):
            raise CompilerBug(
                f"the runtime {info.name!r} does not implement DeviceRuntime",
                code="FLY-B450",
                value=runtime,
            )
        runtime = cache.setdefault(info.name, runtime)
    opened: DeviceRuntime = runtime
    return opened


def _announced() -> tuple[RuntimeInfo, ...]:
    return tuple(plugin_manager().announced.runtimes.values())


def _requested() -> tuple[str, int] | None:
    """Return the runtime name and device index that ``FLYDSL_DEVICE`` asks for.

    Raises:
        UserValueError: The setting is malformed.
        TargetError: No installed plugin has such a runtime.
    """
    text = settings.DEVICE.get()
    if text is None:
        return None
    name, colon, index = text.partition(":")
    if colon and not index.isdecimal():
        raise UserValueError(
            f"{settings.DEVICE.name} is not a runtime name with an optional device index",
            code="FLY-U450",
            value=text,
            allowed=", ".join(info.name for info in _announced())
            + ", each with an optional :index",
        )
    known = [info.name for info in _announced()]
    if known and name not in known:
        from difflib import get_close_matches  # only needed for the message

        close = get_close_matches(name, known, n=2)
        failed = [f"{r.owner} failed to import: {r.error!r}" for r in plugin_manager().failed()]
        hints = [f"did you mean {' or '.join(close)}?"] if close else []
        raise TargetError(
            f"{settings.DEVICE.name} names a device runtime that no installed plugin has",
            code="FLY-T451",
            value=text,
            allowed=f"{', '.join(known)}, each with an optional :index",
            hint="; ".join(hints + failed),
        )
    return name, int(index or 0)


def _placed(info: RuntimeInfo, device: int, wanted: str = "") -> Placement:
    runtime = open_runtime(info)
    count = runtime.device_count()
    if device >= count:
        raise TargetError(
            f"the runtime {info.name!r} has no device {device}",
            code="FLY-T450",
            value=device,
            allowed=f"an index below {count}" if count else "",
            hint="; ".join(filter(None, (wanted, runtime.problem()))),
        )
    return Placement(info, runtime, device)


def _advice(kind: str) -> str:
    """Return what to do where nothing serves tensors of a kind of device; empty: no tensors."""
    if kind == "meta":
        return (
            "meta tensors have shapes but no elements: pass tensors with memory; to follow shapes "
            "only, call an operator (flydsl.ext.torch_ops, and operations of kernel families), or "
            "name the target with FLYDSL_TARGET and set FLYDSL_COMPILE_ONLY=1"
        )
    if kind in ("", "cpu"):
        return "for host tensors install an emulator, for example: pip install flydsl-emu"
    served = sorted({device for info in _announced() for device in info.device_types})
    return (
        f"move the tensors to a device that is served ({', '.join(served) or 'none is'}), or "
        f"install a plugin whose runtime serves {kind}"
    )


def _no_runtime(what: str, kind: str = "") -> TargetError:
    failed = plugin_manager().failed()
    hints = [f"{record.owner} failed to import: {record.error!r}" for record in failed]
    hints.append(_advice(kind))
    return TargetError(
        f"no installed device runtime {what}",
        code="FLY-T451",
        allowed=", ".join(i.name for i in _announced()) or "none: no plugin announces a runtime",
        hint="; ".join(hints),
    )


def _without_tensors(object_format: str) -> Placement:
    fitting = [i for i in _announced() if not object_format or object_format in i.formats]
    requested = _requested()
    if requested is not None:
        for info in fitting:
            if info.name == requested[0]:
                return _placed(info, requested[1], f"{settings.DEVICE.name} names it")
        raise _no_runtime(f"called {requested[0]!r} loads this kind of code")
    present = (i for i in fitting if not i.emulated and open_runtime(i).device_count() > 0)
    chosen = next(present, None) or next((i for i in fitting if i.emulated), None)
    if chosen is None:
        raise _no_runtime("can be used for a call without tensors")
    return _placed(chosen, 0)


def choose_placement(devices: Iterable[str], object_format: str = "") -> Placement:
    """Choose the runtime and device for a call.

    Args:
        devices: Device texts of the tensor arguments, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        object_format: `CodeObject.format` that the runtime must load, if the target is known.

    Raises:
        UserValueError: The tensors are on different devices, or ``FLYDSL_DEVICE`` is malformed.
        TargetError: No installed runtime serves that kind of device or has the name that
            ``FLYDSL_DEVICE`` gives, or the device does not exist.
    """
    found = sorted({device for device in devices if device})
    if not found:
        return _without_tensors(object_format)
    if len(found) > 1:
        raise UserValueError(
            "the tensors of one call are on different devices",
            code="FLY-U451",
            value=", ".join(found),
            allowed="one device for all tensors",
        )
    requested = _requested()
    kind, _, index = found[0].partition(":")
    serving = [i for i in _announced() if kind in i.device_types]
    fitting = [i for i in serving if not object_format or object_format in i.formats]
    if not fitting:
        loads = f" and loads {object_format} code" if serving else ""
        raise _no_runtime(f"serves {kind} tensors{loads}", kind)
    for info in fitting:
        if requested is not None and info.name == requested[0]:
            wanted = "" if index else f"{settings.DEVICE.name} names it"
            return _placed(info, int(index or requested[1]), wanted)
    return _placed(fitting[0], int(index or 0))


def present_device(code: CodeObject) -> Placement | None:
    """Return the first real device of the architecture that `code` is for; None if there is none.

    ``FLYDSL_DEVICE`` makes no difference.
    """
    for info in _announced():
        if info.emulated or code.format not in info.formats:
            continue
        runtime = open_runtime(info)
        for device in range(runtime.device_count()):
            # One of an architecture that is not known is another one.
            with suppress(TargetError):
                spec = runtime.device_spec(device)
                if spec is not None and spec.arch == code.target.arch:
                    return Placement(info, runtime, device)
    return None


def check_streams(specs: Mapping[str, ArgSpec], placement: Placement) -> None:
    """Check that streams are on the device of the launch, as far as they tell; emulators have none.

    Args:
        specs: The arguments by name.
        placement: Where the launch is.

    Raises:
        UserValueError: One is on another device.
    """
    if placement.info.emulated:
        return
    for name, spec in specs.items():
        for device in spec.stream_devices:
            if device != placement.device:
                raise UserValueError(
                    f"{name!r}: the stream is on another device than the launch",
                    code="FLY-U451",
                    value=f"a stream of device {device}",
                    allowed=f"a stream of device {placement.device}, where the launch is",
                    hint="make the stream on the device of the tensors, or pass None for its "
                    "current stream",
                )
