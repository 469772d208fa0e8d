"""Which calls of a tuned launcher share a result."""

from __future__ import annotations

import types
from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from flydsl.autotune.memory import shape_of, tensors_in
from flydsl.compiler.arguments.tensors import MAX_ALIGNMENT, library_of
from flydsl.frontend.contents import content_of
from flydsl.frontend.dependencies import collect_dependencies
from flydsl.plugins.manager import plugin_manager

if TYPE_CHECKING:
    from flydsl.compiler.driver import Call
    from flydsl.frontend import Dependencies, JitFunction
    from flydsl.plugins.payloads import ArgSpec

__all__ = ["Origin", "call_key", "key_of", "provenance_of"]

_PLAIN = frozenset((int, bool, float, str, type(None)))


def key_of(
    launcher: JitFunction, given: Mapping[str, Any], call: Call, names: Collection[str] | None
) -> str:
    """Return text that is equal, in any process, for calls that share a result.

    Args:
        launcher: The launcher.
        given: The arguments that the caller gave, by name.
        call: The call, resolved for one of the candidates.
        names: Names of the arguments whose extents or values count; None stands for all tensors.
    """
    parts = [launcher.qualname, f"target={call.target.name}", f"device={_device(call)}"]
    parts += [f"{name}:{_kind(call.specs[name])}" for name in sorted(given)]
    for name, tensor in tensors_in(given):
        if names is None or name.partition(".")[0] in names:
            parts.append(f"{name}.shape={shape_of(tensor)}")
    for name in sorted(set(names or ()) & given.keys()):
        if call.specs[name].ir_type and not call.specs[name].devices:
            parts.append(f"{name}={given[name]!r}")
    return ";".join(parts)


def call_key(given: Mapping[str, Any]) -> Hashable | None:
    """Return what is equal, in this process, for calls that surely share a configuration.

    It takes microseconds; None for arguments that have to be described to know.
    """
    parts: list[Hashable] = []
    for name, value in given.items():
        kind = type(value)
        library = "" if kind in _PLAIN else library_of(value)
        if library == "torch":
            where = value.data_ptr() % MAX_ALIGNMENT, value.device
            parts.append((name, kind, value.dtype, value.shape, value.stride(), *where))
        elif library == "numpy":
            where = value.ctypes.data % MAX_ALIGNMENT, value.flags.writeable
            parts.append((name, kind, value.dtype, value.shape, value.strides, *where))
        elif kind in _PLAIN:
            parts.append((name, kind, value))
        else:
            return None
    return tuple(parts)


def _device(call: Call) -> str:
    if call.placement is None:
        return ""
    runtime, name = call.placement.runtime, call.placement.info.name
    # Devices of one architecture differ in size. Runtimes need not tell.
    model = getattr(runtime, "device_model", None)
    return name if model is None else f"{name} {model(call.placement.device)}"


def _kind(spec: ArgSpec) -> str:
    """Return what a kernel is compiled for: type and layout, or the value."""
    if spec.parts:
        return ",".join(f"{name}:{_kind(part)}" for name, part in spec.parts)
    return content_of(spec.static).digest if not spec.ir_type else _text(spec.key)


def _text(key: Hashable) -> str:
    if isinstance(key, tuple):
        return " ".join(str(part) for part in key)
    return str(key)


class Origin:
    """What results hold for: a program and its reference, as they are when it is asked.

    Args:
        launcher: The launcher.
        reference: What candidates have to agree with; None if there is none.
    """

    def __init__(self, launcher: JitFunction, reference: object) -> None:
        self._launcher, self._reference = launcher, reference
        self._parts: tuple[Dependencies, Dependencies | None] | None = None

    def parts(self) -> tuple[Dependencies, Dependencies | None]:
        """Return what program and reference depend on: the same objects while nothing changes.

        None stands for no reference, and for one that is no function or method written in Python.
        """
        program, known = self._launcher.dependencies(), self._parts
        same = known is not None and known[0] is program
        if known is None or not same or not (known[1] is None or known[1].unchanged()):
            self._parts = known = program, _reference_dependencies(self._reference)
        return known

    def identity(self) -> Hashable:
        """Return what is equal in this process for equal programs and references."""
        return tuple(
            part.digest if part is not None and part.portable else part for part in self.parts()
        )

    def hashes(self) -> Mapping[str, str] | None:
        """Return hashes of program and reference, equal in every process for equal ones.

        Both count with all they depend on. None where one cannot be compared in another process,
        which then must not find the result.
        """
        program, reference = self.parts()
        known = self._reference is None if reference is None else reference.portable
        if not known or not program.portable:
            return None
        return {"program": program.digest, "reference": reference.digest if reference else ""}


def _reference_dependencies(reference: object) -> Dependencies | None:
    function, instance = reference, None
    if isinstance(reference, types.MethodType):
        function, instance = reference.__func__, reference.__self__
    if not isinstance(function, types.FunctionType):
        return None
    return collect_dependencies(function, instance)


def provenance_of(call: Call, origin: Mapping[str, str] | None) -> dict[str, str]:
    """Return where a result comes from: device, versions, and hashes of program and reference.

    Args:
        call: The call, resolved for one of the candidates.
        origin: See `Origin.hashes`.
    """
    versions = {
        record.distribution: record.version
        for record in plugin_manager().records
        if record.distribution
    }
    return {"target": call.target.name, "device": _device(call), **(origin or {}), **versions}
