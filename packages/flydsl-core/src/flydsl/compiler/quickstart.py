"""The first call of a process out of the disk cache, without plugins, specifications or a target.

When a launcher has been compiled or found for a device whose runtime can restart, an entry is
written that holds all that a later process needs: the host stub, what the runtime loads, and how
each argument is read. Its key is made of what the call itself shows: the program's digest, the
types of the arguments and what of them is compiled in, the environment, the installed packages. Of
editable packages the entry names the folders that the compiler was loaded from, and a fingerprint
of what is in them. A process that has not used plugins yet tries this first; whatever is unusual
goes the full way.
"""

from __future__ import annotations

import hashlib
import importlib
import marshal
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from flydsl.axes import alignment_of, unit_axis
from flydsl.caching import (
    SourcesState,
    compiler_fingerprint,
    disk_cache,
    keep,
    loaded_folders,
    sources_hold,
    sources_state,
)
from flydsl.codegen import kept
from flydsl.codegen.machine_code import MachineCode
from flydsl.compiler.direct_template import Template, make_template
from flydsl.compiler.dispatch import front_code
from flydsl.compiler.exchange import exchanged
from flydsl.compiler.loading import Launch, Launcher, LoadedArtifact
from flydsl.config import core as settings
from flydsl.config.settings import environment_text, overridden
from flydsl.errors import FlyDSLError
from flydsl.expr.numeric import Numeric
from flydsl.expr.structs import Struct
from flydsl.frontend.dependencies import classes_given, value_identity
from flydsl.frontend.recall import recall_classes

if TYPE_CHECKING:
    from flydsl.compiler.artifact import Artifact
    from flydsl.compiler.driver import Call
    from flydsl.frontend import Dependencies, JitFunction

__all__ = ["attempt", "record"]

_ENVIRONMENT = ("FLYDSL_", "HIP_", "ROCM_", "ROCR_", "HSA_", "ARCH", "COMPILE_ONLY")
"""Beginnings of the variables that may decide what is compiled and where it runs."""
_WIDE = 2**31 - 1
_SCALARS = (int, bool, float, type(None))


class Start(NamedTuple):
    """What a first call needs.

    Attributes:
        closure: Launches; None if its arguments cannot be read natively.
        front: See `flydsl.compiler.dispatch.front_code`.
        dependencies: What the program depends on.
    """

    closure: Launch | None
    front: CodeType
    dependencies: Dependencies


def attempt(function: JitFunction, values: Mapping[str, object]) -> Start | None:
    """Return what makes a call, or None if the full way has to be gone.

    Args:
        function: The launcher.
        values: Arguments by parameter name.
    """
    if not _fresh() or not settings.ENABLE_CACHE.get():
        return None
    dependencies = function.recalled_dependencies()
    kinds = classes_given(*_given(function, values))
    if kinds:
        dependencies = dependencies.with_classes(recall_classes(kinds))
    key = _key(function, values, dependencies)
    data = None if key is None else disk_cache().fetch(key)
    if data is None:
        return None
    try:
        found: Any = marshal.loads(data)
        sources, codes, *found = found
        if not sources_hold(SourcesState(*sources)):
            return None
        kept.offer(codes)
        dotted, state, device, name, kernels, stub, implicit, plan, front = found
        module, _, attribute = dotted.partition(":")
        runtime, loaded = getattr(importlib.import_module(module), attribute)(state, device)
        launcher = Launcher(name, kernels, MachineCode(*stub), implicit)
        artifact = LoadedArtifact(launcher, runtime, loaded, device)
    except (ValueError, TypeError, LookupError, ImportError, AttributeError, FlyDSLError):
        # Another device, or a driver that is gone: the full way finds out and says so.
        return None
    template = Template(*plan)
    closure = artifact.bound(template, template.objects(tuple(values.values())))
    if closure is None:
        # The full way loads the kernels again.
        with suppress(FlyDSLError):
            loaded.unload()
    return Start(closure, front, dependencies)


def record(function: JitFunction, call: Call, artifact: Artifact, *, compiled: bool) -> None:
    """Keep what a later process needs to make the same call at once, if that is possible.

    Args:
        function: The launcher.
        call: A call of it.
        artifact: What it launches.
        compiled: Whether this process has compiled it, and so has loaded all that takes part.
    """
    placement = call.placement
    specs = list(call.specs.values())
    made = make_template(specs, implicit_stream=artifact.implicit_stream)
    options = call.options
    plain = not (options.dump_ir or options.debug_info or artifact.sites)
    if placement is None or made is None or not plain or not settings.ENABLE_CACHE.get():
        return
    restart = placement.runtime.restart(artifact.code, placement.device)
    dependencies = function.dependencies().given(*_given(function, call.values))
    key = None if restart is None else _key(function, call.values, dependencies)
    if restart is None or key is None:
        return
    stub = (artifact.stub.data, artifact.stub.entry, artifact.stub.machine)
    folders = loaded_folders() if compiled else None
    state: Any = (
        tuple(sources_state(folders)),
        kept.used(),
        *restart,
        placement.device,
        artifact.launcher,
        artifact.kernels,
        stub,
        artifact.implicit_stream,
        tuple(made[0]),
        front_code(function.signature.parameters),
    )
    header = {"name": f"{function.name} (start)", "target": call.target.name}
    keep(key, marshal.dumps(state), header)


def _fresh() -> bool:
    """Whether nothing in this process has used plugins or overridden settings."""
    manager = sys.modules.get("flydsl.plugins.manager")
    return (manager is None or not manager.in_use()) and not overridden()


def _given(function: JitFunction, values: Mapping[str, object]) -> tuple[list[object], list[type]]:
    """Return the compile-time values and the structs' types of a call."""
    static: list[object] = []
    structs: list[type] = []
    for parameter in function.signature.parameters:
        value = values[parameter.name]
        if parameter.constexpr:
            static.append(value)
        elif isinstance(value, Struct):
            kind: Any = type(value)
            structs.append(kind)
            static += [getattr(value, field.name) for field in kind.fields if field.constexpr]
    return static, structs


def _key(
    function: JitFunction, values: Mapping[str, object], dependencies: Dependencies
) -> str | None:
    portable = dependencies.portable and dependencies.given_digest is not None
    if not portable or function.instance is not None or overridden():
        return None
    parts = [
        "start",
        compiler_fingerprint(()),
        function.function.__module__,
        function.qualname,
        dependencies.digest,
        dependencies.given_digest or "",
        environment_text(_ENVIRONMENT),
        # Plans hold offsets in tensors of this version.
        str(getattr(sys.modules.get("torch"), "__version__", "")),
    ]
    known: dict[int, str | None] = {}
    for parameter in function.signature.parameters:
        annotation = repr(parameter.annotation)
        value = values[parameter.name]
        text = _static_text(value) if parameter.constexpr else _kind_text(value, known)
        if text is None or " at 0x" in annotation:
            return None
        parts += [annotation, text]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _static_text(value: object) -> str | None:
    """Return text that is equal for equal compile-time values; None for unusual ones."""
    kind = type(value)
    if kind is float:
        return f"float:{value.hex()}"  # type: ignore[attr-defined]
    if kind in (int, bool, str, type(None)):
        return f"{kind.__name__}:{value!r}"
    # The mutable may change while it is a key; the classes of others are part of their content.
    identity = value_identity(value) if getattr(kind, "__hash__", None) is not None else None
    return None if identity is None else f"{kind.__module__}.{kind.__qualname__}:{identity}"


def _kind_text(value: object, known: dict[int, str | None]) -> str | None:
    """Return what of a run-time argument is compiled in; None for unusual arguments.

    Args:
        value: The argument.
        known: What was returned for others of the same call, by identity: one tensor may stand for
            many that are not given.
    """
    if id(value) not in known:
        known[id(value)] = _new_kind_text(value, known)
    return known[id(value)]


def _new_kind_text(value: object, known: dict[int, str | None]) -> str | None:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind in _SCALARS or name == "flydsl.expr.annotations.Stream":
        return name
    if isinstance(value, Numeric):
        return f"{name}:{kind!r}:{type(value.value).__name__}"
    if isinstance(value, Struct):
        return _struct_text(name, value, known)
    # Before asking for an attribute that tensors lack, which takes them long to say.
    seen = exchanged(value)
    if seen is None:
        return name if hasattr(value, "cuda_stream") else None
    if not seen.shape:
        return None
    wide = [axis for axis, extent in enumerate(seen.shape) if extent > _WIDE]
    unit = unit_axis(seen.shape, seen.strides)
    alignment = alignment_of(seen.address)
    return f"{name}:{seen.dtype}:{seen.device}:{len(seen.shape)}:{alignment}:{unit}:{wide}"


def _struct_text(name: str, value: Struct, known: dict[int, str | None]) -> str | None:
    """Return what of a struct is compiled in."""
    kind: Any = type(value)
    parts = [name]
    for field in kind.fields:
        held = getattr(value, field.name)
        text = _static_text(held) if field.constexpr else _kind_text(held, known)
        if text is None:
            return None
        parts.append(f"{field.name}:{field.kind!r}:{text}")
    return "\1".join(parts)
