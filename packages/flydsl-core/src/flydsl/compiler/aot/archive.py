"""Compiled launchers as files, loaded and called without the program that they come from."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flydsl
from flydsl.compiler.aot.description import Description, Parameter
from flydsl.compiler.artifact import Artifact, only_compiled
from flydsl.compiler.dispatch import MISS
from flydsl.config import check_all
from flydsl.config.core import COMPILE_ONLY
from flydsl.diagnostics import at_user_line
from flydsl.errors import UserOSError, UserTypeError, UserValueError
from flydsl.frontend.eager import CAPTURE, capturing, ends_graph, run_eagerly
from flydsl.plugins.payloads import ArgSpec, CodeObject, KernelInfo
from flydsl.runtime.abi import ABI_VERSION

if TYPE_CHECKING:
    from flydsl.compiler.loading import LoadedArtifact

__all__ = ["LoadedFunction", "load", "save"]

_KIND = b"FLYDSL compiled launcher "
_MAGIC = _KIND + b"2\n"


def save(path: str | Path, description: Description, artifact: Artifact) -> None:
    """Write a compiled launcher.

    Raises:
        UserTypeError: `path` is no path.
        UserOSError: The file cannot be written.
    """
    file = _path(path)
    content = description, artifact
    body = pickle.dumps(content, protocol=5)
    forms: dict[str, tuple[str, ...]] = {}
    _add_forms(content, forms)
    data = pickle.dumps((flydsl.__version__, ABI_VERSION, forms, body), protocol=5)
    try:
        file.write_bytes(_MAGIC + hashlib.sha256(data).digest() + data)
    except OSError as error:
        raise UserOSError.of(
            error,
            "the compiled launcher cannot be written",
            path,
            code="FLY-U484",
            allowed="a file in an existing folder",
        ) from error


def _path(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise UserTypeError(
            "this is no path of a file", code="FLY-U484", value=path, allowed="text or a Path"
        )
    return Path(path)


def _add_forms(value: object, forms: dict[str, tuple[str, ...]]) -> None:
    """Note the fields of the data classes in `value`: what is pickled is only their contents."""
    if isinstance(value, (tuple, list, frozenset)):
        parts: Iterable[object] = value
    elif isinstance(value, Mapping):
        parts = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in fields(value))
        forms[f"{type(value).__module__}:{type(value).__qualname__}"] = names
        parts = [getattr(value, name) for name in names]
    else:
        return
    for part in parts:
        _add_forms(part, forms)


def _has_form(dotted: str, names: tuple[str, ...]) -> bool:
    """Whether a data class still has these fields."""
    module, _, name = dotted.partition(":")
    kind: Any = getattr(importlib.import_module(module), name, None)
    return is_dataclass(kind) and tuple(field.name for field in fields(kind)) == names


def load(path: str | Path) -> LoadedFunction:
    """Return the launcher that `CompiledFunction.save` wrote.

    The file holds pickled objects: load only what you trust as you would trust a module.

    Raises:
        UserValueError: The file is something else, damaged, or from another version.
        UserTypeError: `path` is no path.
        UserOSError: It cannot be read.
    """
    with at_user_line():
        try:
            data = _path(path).read_bytes()
        except OSError as error:
            raise UserOSError.of(
                error,
                "the compiled launcher cannot be read",
                path,
                code="FLY-U484",
                allowed="a file written by CompiledFunction.save",
            ) from error
        start = len(_MAGIC) + 32
        body = data[start:]
        if data.startswith(_KIND) and not data.startswith(_MAGIC) and len(data) > start:
            raise _of_another_version(path)
        if (
            data[: len(_MAGIC)] != _MAGIC
            or hashlib.sha256(body).digest() != data[start - 32 : start]
        ):
            raise UserValueError(
                "this is no compiled launcher, or the file is damaged",
                code="FLY-U481",
                value=str(path),
                allowed="a file written by CompiledFunction.save",
            )
        version = ""
        try:
            version, abi, forms, content = pickle.loads(body)  # noqa: S301 - documented
            if abi != ABI_VERSION or not all(_has_form(*form) for form in forms.items()):
                raise _of_another_version(path, version)
            description, artifact = pickle.loads(content)  # noqa: S301
        except UserValueError:
            raise
        except Exception as error:
            raise _of_another_version(path, version) from error
        return LoadedFunction(description, artifact)


def _of_another_version(path: str | Path, version: str = "") -> UserValueError:
    written = f"version {version}" if version else "another version"
    return UserValueError(
        f"the compiled launcher was written by {written} of flydsl, whose files differ",
        code="FLY-U481",
        value=str(path),
        allowed=f"a file written by version {flydsl.__version__}, or by one with the same form",
        hint="compile it again",
    )


class LoadedFunction:
    """A compiled launcher from a file; called like a `CompiledFunction`.

    Attributes:
        description: Its parameters.
        artifact: Everything that its compile produced.
    """

    def __init__(self, description: Description, artifact: Artifact) -> None:
        self.description = description
        self.artifact = artifact
        self._closures: list[Callable[..., object]] = []
        self._loaded: dict[str, LoadedArtifact] = {}

    @property
    def code(self) -> CodeObject:
        """The device code object."""
        return self.artifact.code

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Resources of each kernel."""
        return self.artifact.code.kernels

    @ends_graph
    def __call__(self, *args: object, **kwargs: object) -> None:
        """Launch; compile-time parameters take the value that is compiled in, or None.

        Raises:
            UserTypeError: The arguments are not of the kinds that it was compiled for.
            UserValueError: A compile-time parameter is given another value.
            UserRuntimeError: ``COMPILE_ONLY`` is set at the first call with arguments of a kind.
            TargetError: No device that runs the code is there, or the launch failed.
        """
        if kwargs or len(args) != len(self.description.parameters):
            args = self._bound(args, kwargs)
        if CAPTURE in sys.modules and capturing():
            run_eagerly(self._launch, args, {})
        else:
            self._launch(*args)

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        names = [parameter.name for parameter in self.description.parameters]
        given: dict[str, object] = dict(zip(names, args, strict=False))
        missing = [name for name in names if name not in given and name not in kwargs]
        twice = [name for name in kwargs if name in given]
        unknown = [name for name in kwargs if name not in names]
        problems = [
            f"is missing {', '.join(map(repr, missing))}" if missing else "",
            f"got two values for {', '.join(map(repr, twice))}" if twice else "",
            f"has no parameter {', '.join(map(repr, unknown))}" if unknown else "",
            f"takes {len(names)} arguments, {len(args)} were given"
            if len(args) > len(names)
            else "",
        ]
        wrong = "; ".join(filter(None, problems))
        if wrong:
            launcher = self.description.launcher
            with at_user_line():
                raise UserTypeError(
                    f"{launcher}() {wrong}",
                    code="FLY-U219",
                    allowed=f"{launcher}({', '.join(names)})",
                )
        given |= kwargs
        return tuple(given[name] for name in names)

    def _launch(self, *args: object) -> None:
        for closure in self._closures:
            if closure(*args) is None:
                return
        with at_user_line():
            closures = self._closures_for(args)
            if all(closure(*args) is MISS for closure in closures):
                raise self._mismatch(args)
            self._closures += closures

    def _closures_for(self, args: tuple[object, ...]) -> tuple[Callable[..., object], ...]:
        from flydsl.compiler.loading import LoadedArtifact
        from flydsl.runtime import check_streams, choose_placement
        from flydsl.targets import choose_target

        parameters = self.description.parameters
        if len(args) != len(parameters):
            raise self._mismatch(args)
        specs = [_described(*pair) for pair in zip(parameters, args, strict=True)]
        for parameter, spec, value in zip(parameters, specs, args, strict=True):
            accepts: Any = spec.names.get("accepts")
            if parameter.kind == "static" and not accepts(value):
                raise UserValueError(
                    f"{self.description.launcher} was compiled for another {parameter.name!r}",
                    code="FLY-U424",
                    value=value,
                    allowed=parameter.static,
                )
        if any(s.key != p.key for s, p in zip(specs, parameters, strict=True)):
            raise self._mismatch(args)
        if COMPILE_ONLY.get():
            raise only_compiled(self.description.launcher)
        devices = [spec.device for spec in specs if spec.device]
        placement = choose_placement(devices, self.code.format)
        check_all()
        check_streams({p.name: s for p, s in zip(parameters, specs, strict=True)}, placement)
        # Refuses a device of another architecture.
        choose_target(self.code.target, device=placement.runtime.device_spec(placement.device))
        loaded = self._loaded.get(placement.name)
        if loaded is None:
            made = LoadedArtifact.load(self.artifact, placement)
            loaded = self._loaded.setdefault(placement.name, made)
        return loaded.closures(tuple(specs), check_static=False)

    def _mismatch(self, args: tuple[object, ...]) -> UserTypeError:
        wanted = ", ".join(
            f"{p.name}: {p.ir_type or p.static}" for p in self.description.parameters
        )
        return UserTypeError(
            f"{self.description.launcher} was compiled for arguments of other kinds",
            code="FLY-U420",
            value=tuple(type(arg).__name__ for arg in args),
            allowed=wanted,
        )

    def __repr__(self) -> str:
        return f"<LoadedFunction {self.description.launcher} for {self.description.target}>"


def _described(parameter: Parameter, value: object) -> ArgSpec:
    from flydsl import expr as fx
    from flydsl.plugins.manager import plugin_manager

    if parameter.kind == "static":
        return _static(parameter, value)
    annotation: Any = getattr(fx, parameter.annotation) if parameter.annotation else None
    spec: ArgSpec = plugin_manager().hook.flydsl_argument(value=value, annotation=annotation)
    return spec


def _static(parameter: Parameter, value: object) -> ArgSpec:
    """Return the specification of a compile-time value, of which only the text is known."""
    import ast

    from flydsl.compiler.arguments.compile_time import static_key
    from flydsl.expr.annotations import python_integer

    known, literal = value, False
    with contextlib.suppress(ValueError, SyntaxError):
        known, literal = ast.literal_eval(parameter.static), True

    def accepts(other: object) -> bool:
        if parameter.annotation:  # a run-time parameter that was given None
            return other is None
        if not literal:
            # Only the text is left of it.
            return other is None or repr(other) == parameter.static
        if type(known) is int:
            other = python_integer(other)
        if type(other) is type(known):
            return static_key(other) == static_key(known)
        # The text may also be that of an object of the user's.
        text = type(other).__module__ != "builtins" and repr(other) == parameter.static
        return other is None or text

    return ArgSpec(parameter.key, "", names={"static": known, "accepts": accepts}, static=known)
