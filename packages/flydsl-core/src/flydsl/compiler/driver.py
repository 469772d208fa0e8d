"""The driver: from a call of a launcher to a compiled, loaded and launched kernel."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType
from typing import TYPE_CHECKING, Any

from flydsl.compiler import quickstart
from flydsl.compiler.artifact import CompileKey
from flydsl.compiler.cache import FunctionCache
from flydsl.compiler.dispatch import MISS, MISSING, make_front
from flydsl.compiler.persistence import persistence_for
from flydsl.config import check_all, compile_options, watch
from flydsl.config import core as settings
from flydsl.diagnostics import at_user_line
from flydsl.errors import CompilerBug, FlyDSLError

if TYPE_CHECKING:
    from flydsl.compiler.artifact import Artifact
    from flydsl.config import CompileOptions
    from flydsl.frontend import JitFunction
    from flydsl.plugins.payloads import ArgSpec, TargetSpec
    from flydsl.plugins.protocols import Target
    from flydsl.runtime import Placement

__all__ = ["Call", "Driver", "cache_of", "place", "target_at"]

_WATCHED = watch(
    settings.TARGET,
    settings.DEVICE,
    settings.COMPILE_ONLY,
    settings.OPT_LEVEL,
    settings.DUMP_IR,
    settings.DUMP_DIR,
    settings.VERIFY,
    settings.DEBUG_INFO,
    settings.PLUGINS_DISABLE,
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a launcher, resolved as far as its compilation depends on it.

    Attributes:
        values: Arguments by parameter name, defaults applied.
        specs: How each is passed, by parameter name.
        options: Compile options.
        target: What to compile for.
        placement: Where to launch; None when only compiling.
        key: What distinguishes its artifact.
    """

    values: Mapping[str, object]
    specs: Mapping[str, ArgSpec]
    options: CompileOptions
    target: Target
    placement: Placement | None
    key: CompileKey


def cache_of(function: JitFunction) -> FunctionCache:
    """Return the launcher's cache, made on first use."""
    if not isinstance(function.state, FunctionCache):
        function.state = FunctionCache()
    cache: FunctionCache = function.state
    return cache


class Driver:
    """Implements calls of `@flyc.jit` functions; `flydsl.frontend` holds the one instance."""

    def call(
        self, function: JitFunction, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        """Compile `function` for these arguments if needed, and launch it.

        Raises:
            UserError: The arguments or the program are wrong; at the user's line.
            TargetError: The target cannot do what is asked, or none can be chosen.
        """
        with at_user_line():
            bound = function.bind(args, dict(kwargs))
            if self._start(function, bound):
                return
            call = self.resolve(function, bound)
            cache = cache_of(function)
            with cache.lock:
                first = not cache.used
                artifact = self.artifact(function, call)
                closures: tuple[Callable[..., object], ...] = ()
                if call.placement is not None:
                    closures = self.closures(function, call, artifact)
                    if not call.options.dump_ir:
                        self._publish(function, bound, closures)
                    if first and not cache.hints and cache.only_scanned:
                        quickstart.record(function, call, artifact, compiled=cache.compiled)
            values = tuple(bound.values())
            if closures and all(closure(*values) is MISS for closure in closures):
                # Tracing may have changed a compile-time value.
                closures = self.closures(function, call, artifact, check_static=False)
                if all(closure(*values) is MISS for closure in closures):
                    raise CompilerBug(
                        f"the code made for a call of {function.name} does not accept its "
                        "arguments",
                        code="FLY-B441",
                    )

    def resolve(
        self,
        function: JitFunction,
        values: Mapping[str, object],
        hints: Mapping[str, object] | None = None,
        compiled: Call | None = None,
    ) -> Call:
        """Describe the arguments, choose the target and the device.

        Args:
            function: The launcher.
            values: Arguments by parameter name, defaults applied.
            hints: Compile hints; None takes those stored on the function.
            compiled: What the launcher has been compiled for already: its target and options hold,
                whatever the settings are now, except that nothing is launched when only compiling.

        Raises:
            UserError: An argument cannot be passed, or tensors and streams are on several devices.
            TargetError: No target or device can be chosen.
        """
        specs = {
            parameter.name: _described(parameter, values[parameter.name])
            for parameter in function.signature.parameters
        }
        from flydsl.runtime import check_streams

        options = compile_options(cache_of(function).hints if hints is None else hints)
        devices = [device for spec in specs.values() for device in spec.devices]
        if compiled is not None:
            options = replace(compiled.options, compile_only=options.compile_only)
        target, placement = place(devices, options, None if compiled is None else compiled.target)
        if placement is not None and any(spec.stream_devices for spec in specs.values()):
            check_streams(specs, placement)
        key = CompileKey(
            tuple(spec.key for spec in specs.values()), target.name, options.cache_key()
        )
        return Call(values, specs, options, target, placement, key)

    def artifact(self, function: JitFunction, call: Call) -> Artifact:
        """Return the artifact for `call`, compiled if it is not in the cache.

        Raises:
            UserError, TargetError: The program cannot be compiled.
        """
        cache = cache_of(function)
        with cache.lock:
            cache.refresh()
            found = cache.artifact(call.key)
            # Dumps are made while compiling, so asking for them compiles.
            if found is not None and not call.options.dump_ir:
                _announce("cache-hit", function.name, call.target.name)
                return found
            # By now all that takes part has declared its settings.
            check_all()
            persistence = persistence_for(function, call)
            kept = persistence.fetch()
            if kept is None:
                persistence.require()
                with persistence.lock():
                    # Whoever held the lock may have compiled the same.
                    kept = persistence.fetch()
                    if kept is None:
                        from flydsl.compiler.compilation import compile_call

                        with _without_cyclic_gc():
                            compiled = compile_call(function, call)
                        persistence.store(*compiled)
                        cache.store(call.key, *compiled)
                        cache.compiled = True
                        return compiled[0]
            _announce("disk-hit", function.name, call.target.name)
            cache.store(call.key, *kept)
            return kept[0]

    def closures(
        self,
        function: JitFunction,
        call: Call,
        artifact: Artifact,
        *,
        check_static: bool = True,
    ) -> tuple[Callable[..., object], ...]:
        """Return what launches `artifact` for arguments like the call's; to be tried in turn.

        Raises:
            TargetError: The runtime cannot load the code object.
        """
        from flydsl.compiler.loading import LoadedArtifact

        placement = call.placement
        assert placement is not None
        form = (
            placement.name,
            check_static,
            tuple(
                (type(value), spec.guard, spec.leaves)
                for value, spec in zip(call.values.values(), call.specs.values(), strict=True)
            ),
        )
        cache = cache_of(function)
        loaded = cache.loaded(
            call.key, placement.name, lambda: LoadedArtifact.load(artifact, placement)
        )
        specs = tuple(call.specs.values())
        return cache.closures(
            call.key, form, lambda: loaded.closures(specs, check_static=check_static)
        )

    def _start(self, function: JitFunction, values: Mapping[str, object]) -> bool:
        """Make the first call of a process out of the disk cache; return whether it was made."""
        cache = cache_of(function)
        if cache.used or cache.hints:
            return False
        with cache.lock, _without_cyclic_gc():
            start = quickstart.attempt(function, values)
            if start is None or start.closure is None:
                return False
            cache.started(start.dependencies)
            self._publish(function, values, (start.closure,), start.front)
        return start.closure(*values.values()) is not MISS

    def _publish(
        self,
        function: JitFunction,
        values: Mapping[str, object],
        closures: tuple[Callable[..., object], ...],
        code: CodeType | None = None,
    ) -> None:
        """Make the next call with such arguments go through the generated front."""
        cache = cache_of(function)
        parameters = function.signature.parameters
        kinds = tuple(values[p.name] if p.constexpr else type(values[p.name]) for p in parameters)
        cache.publish(kinds, closures, _WATCHED())
        if function.dispatch is not cache.front:
            cache.front = make_front(parameters, cache.live, _WATCHED, self._slow(function), code)
            function.dispatch = cache.front

    def _slow(self, function: JitFunction) -> Callable[..., object]:
        def slow(
            extra: tuple[object, ...], given: dict[str, object], unknown: dict[str, object]
        ) -> None:
            named = {name: value for name, value in given.items() if value is not MISSING}
            if extra:
                # More positional arguments than parameters: let binding explain it.
                self.call(function, (*given.values(), *extra), unknown)
            else:
                self.call(function, (), {**named, **unknown})

        return slow


def _announce(kind: str, name: str, target: str) -> None:
    """Tell listeners, if there are any."""
    from flydsl.plugins.manager import plugin_manager
    from flydsl.plugins.payloads import CompileEvent

    manager = plugin_manager()
    if manager.has_listeners("flydsl_compile_event"):
        manager.hook.flydsl_compile_event(event=CompileEvent(kind, name, target))


def _described(parameter: Any, value: object) -> ArgSpec:
    """Return the specification of one argument; errors name the parameter."""
    from flydsl.compiler.arguments.compile_time import absent, describe_static
    from flydsl.plugins.manager import plugin_manager
    from flydsl.plugins.payloads import ArgSpec

    manager = plugin_manager()
    try:
        if parameter.constexpr:
            return describe_static(parameter.name, value, parameter.annotation)
        if value is None and parameter.optional:
            return absent()
        wanted = parameter.dsl_type
        spec = manager.hook.flydsl_argument(value=value, annotation=wanted)
        if not isinstance(spec, ArgSpec):
            raise CompilerBug(
                "a plugin answered flydsl_argument with something else", value=spec, code="FLY-B442"
            )
        return spec
    except FlyDSLError as error:
        if not error.message.startswith(repr(parameter.name)):
            error.message = f"{parameter.name!r}: {error.message}"
        raise


def place(
    devices: list[str], options: CompileOptions, compiled: Target | None = None
) -> tuple[Target, Placement | None]:
    """Choose the target, and unless only compiling, the runtime and device.

    Args:
        devices: Device texts of the tensors, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        options: Says whether anything will be launched.
        compiled: The target, where the program has been compiled already.

    Raises:
        UserValueError: The tensors are on different devices.
        TargetError: No target or device can be chosen.
    """
    from flydsl.runtime import choose_placement
    from flydsl.targets import choose_target, create_target

    if compiled is not None and options.compile_only:
        return compiled, None
    if options.compile_only:
        spec = None
        if any(device != "cpu" for device in devices) and settings.TARGET.get() is None:
            placement = choose_placement(devices)
            spec = placement.runtime.device_spec(placement.device)
        return choose_target(device=spec, compile_only=True), None
    named = settings.TARGET.get()
    known = create_target(named) if named and compiled is None else compiled
    placement = choose_placement(devices, known.object_format if known is not None else "")
    target = choose_target(
        compiled,
        device=placement.runtime.device_spec(placement.device),
        fallback=placement.info.default_target,
    )
    return target, placement


def target_at(device: str) -> Target:
    """Return the target of launches with tensors on a device, as `place` chooses it.

    A choice holds while the plugins, the settings and the device are the same.

    Args:
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        TargetError: No target or device can be chosen.
    """
    from flydsl.plugins.manager import plugin_manager

    now, known = _WATCHED(), plugin_manager().cache("targets-of-devices")
    found: tuple[object, Placement, TargetSpec, Target] | None = known.get(device)
    if found is not None:
        before, placed, had, target = found
        runtime, index = placed.runtime, placed.device
        if before == now and index < runtime.device_count() and runtime.device_spec(index) == had:
            return target
    target, placement = place([device], compile_options())
    # Where the device has no architecture of its own, plugins may be asked each time.
    spec = None if placement is None else placement.runtime.device_spec(placement.device)
    if placement is not None and spec is not None:
        known[device] = now, placement, spec, target
    return target


@contextmanager
def _without_cyclic_gc() -> Iterator[None]:
    # A full collection over the objects of a large program costs more than a compile, and tracing
    # allocates enough to trigger several.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > gc.get_threshold()[0] > 0:
                # Only what was made meanwhile: the next allocation might collect all that the
                # program has imported.
                gc.collect(0)
            gc.enable()
