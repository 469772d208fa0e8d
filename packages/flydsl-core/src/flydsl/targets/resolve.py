"""Chooses the target of a compile and creates it, once per target text.

Order: explicit argument, then the device that the tensors are on, then ``FLYDSL_TARGET`` (``ARCH``,
``FLYDSL_GPU_ARCH``), then a detected device. When only compiling, the environment comes before the
device, because no launch can contradict it.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches

from flydsl.config import core as settings
from flydsl.errors import CompilerBug, TargetError, UserTypeError
from flydsl.plugins.manager import plugin_manager
from flydsl.plugins.payloads import TargetInfo, TargetSpec
from flydsl.plugins.protocols import Target

__all__ = ["choose_target", "create_target", "known_targets", "parse_target"]


def known_targets() -> tuple[TargetInfo, ...]:
    """Return what the installed plugins can compile for, sorted by name."""
    targets = plugin_manager().announced.targets
    return tuple(targets[name] for name in sorted(targets))


def parse_target(text: str) -> TargetSpec:
    """Parse target text such as ``arch:feature+`` by asking the plugins.

    Raises:
        TargetError: No plugin knows it; lists what is close, and plugins that failed to import.
    """
    manager = plugin_manager()
    cache = manager.cache("target-specs")
    spec = cache.get(text)
    if spec is None:
        spec = manager.hook.flydsl_parse_target(text=text)
        if spec is None:
            raise _unknown(text)
        cache[text] = _checked_spec(spec, "flydsl_parse_target")
    result: TargetSpec = spec
    return result


def create_target(spec: TargetSpec | str) -> Target:
    """Return the target for `spec`; the same object for equal specs.

    Raises:
        TargetError: No plugin can create it.
    """
    if isinstance(spec, str):
        spec = parse_target(spec)
    manager = plugin_manager()
    cache = manager.cache("targets")
    target = cache.get(spec)
    if target is None:
        target = manager.hook.flydsl_create_target(spec=spec)
        if target is None:
            raise _unknown(str(spec))
        if not isinstance(target, Target):
            raise _malformed(target, "Target", "flydsl_create_target")
        cache[spec] = target
    result: Target = target
    return result


def choose_target(
    explicit: Target | TargetSpec | str | None = None,
    *,
    device: TargetSpec | None = None,
    compile_only: bool = False,
    fallback: str = "",
) -> Target:
    """Choose the target of one compile.

    Args:
        explicit: What the caller asked for.
        device: Architecture of the device that holds the tensors; None if there is none or it
            adapts to the code (the emulator).
        compile_only: Nothing will be launched.
        fallback: `RuntimeInfo.default_target` of the runtime that will launch; used last, with a
            notice on stderr the first time.

    Raises:
        TargetError: Nothing names a target; the target is unknown; or a launch is asked for on a
            device of another architecture.
        UserTypeError: `explicit` is none of the accepted types.
    """
    if explicit is not None:
        return _for_device(_explicit(explicit), device, compile_only, "the target asked for")
    named = settings.TARGET.get()
    if named is not None and (compile_only or device is None):
        return create_target(named)
    if device is not None:
        if named is not None:
            source = settings.TARGET.source() or settings.TARGET.name
            return _for_device(create_target(named), device, compile_only, f"{source}={named}")
        return create_target(device)
    detected = plugin_manager().hook.flydsl_detect_device()
    if detected is not None:
        return create_target(_checked_spec(detected, "flydsl_detect_device"))
    if fallback and not compile_only:
        return _fallback(fallback)
    raise _nothing_named()


def _explicit(explicit: Target | TargetSpec | str) -> Target:
    if isinstance(explicit, (str, TargetSpec)):
        return create_target(explicit)
    if isinstance(explicit, Target):
        return explicit
    raise UserTypeError(
        "the target has a type that cannot be used",
        code="FLY-U510",
        value=explicit,
        allowed="text, a TargetSpec or a Target",
    )


def _for_device(
    target: Target, device: TargetSpec | None, compile_only: bool, source: str
) -> Target:
    """Return `target` if code for it can run on `device`."""
    if device is None or compile_only:
        return target
    wanted = dict(target.spec.features)
    has = dict(device.features)
    fits = (target.backend, target.arch) == (device.backend, device.arch) and all(
        has.get(name, on) == on for name, on in wanted.items()
    )
    if not fits:
        raise TargetError(
            f"{source} differs from the device that the launch is for",
            code="FLY-T515",
            value=target.name,
            allowed=str(device),
            hint="unset it, pass tensors of the other device, or only compile (COMPILE_ONLY=1)",
        )
    return target


def _fallback(name: str) -> Target:
    target = create_target(name)
    noticed = plugin_manager().cache("fallback-notices")
    if name not in noticed:
        noticed[name] = True
        sys.stderr.write(
            f"flydsl: no GPU and no target named: emulating {name} "
            f"(set {settings.TARGET.name} to choose another)\n"
        )
    return target


def _checked_spec(value: object, hook: str) -> TargetSpec:
    if not isinstance(value, TargetSpec):
        raise _malformed(value, "TargetSpec", hook)
    return value


def _malformed(value: object, expected: str, hook: str) -> CompilerBug:
    return CompilerBug(
        f"a plugin answered {hook} with something that is no {expected}",
        code="FLY-B512",
        value=value,
    )


def _unknown(text: str) -> TargetError:
    names = [info.name for info in known_targets()]
    close = get_close_matches(text.partition(":")[0], names, n=3)
    failed = plugin_manager().failed()
    hints = [f"did you mean {' or '.join(close)}?"] if close else []
    hints += [f"{record.owner} failed to import: {record.error!r}" for record in failed]
    if not names and not failed:
        hints.append("install a target plugin, for example: pip install flydsl-rocdl")
    error = TargetError(
        "no installed plugin knows this target",
        code="FLY-T513",
        value=text,
        allowed=", ".join(names) or "none: no plugin announces a target",
        hint="; ".join(hints),
    )
    error.__cause__ = failed[0].error if failed else None
    return error


def _nothing_named() -> TargetError:
    names = [info.name for info in known_targets()]
    failed = plugin_manager().failed()
    hints = [f"set {settings.TARGET.name} (or {', '.join(settings.TARGET.aliases)})"]
    hints += [f"{record.owner} failed to import: {record.error!r}" for record in failed]
    return TargetError(
        "no target is named and no device was found",
        code="FLY-T514",
        allowed=", ".join(names) or "none: no plugin announces a target",
        hint="; ".join(hints),
    )
