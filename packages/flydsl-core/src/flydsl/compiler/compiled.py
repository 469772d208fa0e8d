"""`compile` and `CompiledFunction`: one specialisation of a launcher, called without checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flydsl.compiler.artifact import Artifact, only_compiled
from flydsl.compiler.dispatch import MISS
from flydsl.compiler.driver import Call, Driver, cache_of
from flydsl.config import compile_options
from flydsl.config import core as settings
from flydsl.diagnostics import at_user_line, user_location
from flydsl.errors import UserTypeError, UserValueError
from flydsl.frontend import JitFunction
from flydsl.frontend.eager import CAPTURE, capturing, ends_graph, run_eagerly
from flydsl.plugins.payloads import CodeObject, CompileEvent, KernelInfo

if TYPE_CHECKING:
    from flydsl.compiler.aot import Description

__all__ = ["CompiledFunction", "compile"]


class CompiledFunction:
    """A launcher compiled for the kinds of arguments it was compiled with.

    Calling it takes arguments as the launcher does, and is fastest with positional ones. It does
    not look for changes of the program. In the place of a compile-time parameter it takes the value
    that was compiled in, or None where that is no value of the parameter.
    """

    def __init__(
        self,
        driver: Driver,
        function: JitFunction,
        call: Call,
        hints: Mapping[str, object] | None = None,
    ) -> None:
        self._driver = driver
        self._hints = hints
        self._function = function
        self._call = call
        self._artifact = driver.artifact(function, call)
        self._closures: list[Callable[..., object]] = []
        self._isa = ""
        self._count = len(call.values)

    @ends_graph
    def __call__(self, *args: object, **kwargs: object) -> None:
        """Launch.

        Whether ``COMPILE_ONLY`` is set counts for the first call with arguments of a kind; later
        ones do not look.

        Raises:
            UserTypeError: The arguments need another specialisation than this one.
            UserValueError: A compile-time parameter is given another value.
            UserRuntimeError: ``COMPILE_ONLY`` is set.
            TargetError: No device that runs the code is there, or the launch failed.
        """
        if kwargs or len(args) != self._count:
            with at_user_line():
                args = tuple(self._function.bind(args, kwargs).values())
        if CAPTURE in sys.modules and capturing():
            run_eagerly(self._launch, args, {})
            return
        # As `_launch` does, without another call.
        for closure in self._closures:
            if closure(*args) is None:
                return
        self._launch(*args)

    def _launch(self, *args: object) -> None:
        for closure in self._closures:
            if closure(*args) is None:
                return
        with at_user_line():
            closures = self._closures_for(args)
            if all(closure(*args) is MISS for closure in closures):
                raise self._other_specialisation()
            self._closures += closures

    def _closures_for(self, args: tuple[object, ...]) -> tuple[Callable[..., object], ...]:
        function = self._function
        parameters = function.signature.parameters
        values = dict(function.bind(args, {}))
        for parameter in parameters:
            if parameter.constexpr:
                name = parameter.name
                self._check_known(name, values[name])
                values[name] = self._call.values[name]
        call = self._driver.resolve(function, values, self._hints, self._call)
        if call.placement is None:
            raise only_compiled(self._artifact.launcher)
        if call.key.signature != self._call.key.signature:
            raise self._other_specialisation()
        return self._driver.closures(function, call, self._artifact, check_static=False)

    def _check_known(self, name: str, value: object) -> None:
        """Refuse another compile-time value than the one that was compiled in."""
        spec = self._call.specs[name]
        accepts: Any = spec.names["accepts"]
        if not accepts(value):
            raise UserValueError(
                f"{self._artifact.launcher} was compiled for another {name!r}",
                code="FLY-U424",
                value=value,
                allowed=repr(spec.static),
                hint="call the launcher itself, which compiles for any value, or compile again",
            )

    def _other_specialisation(self) -> UserTypeError:
        shown = ", ".join(
            f"{name}: {spec.ir_type or repr(spec.static)}"
            for name, spec in self._call.specs.items()
        )
        return UserTypeError(
            f"{self._artifact.launcher} was compiled for arguments of other kinds",
            code="FLY-U420",
            allowed=shown,
            hint="call the launcher itself, which compiles for any arguments, or compile again",
        )

    @property
    def description(self) -> Description:
        """The parameters as plain values.

        Raises:
            UserTypeError: A parameter is of a kind that plain values cannot describe.
        """
        from flydsl.compiler.aot import describe_call

        annotations = [parameter.dsl_type for parameter in self._function.signature.parameters]
        artifact = self._artifact
        return describe_call(artifact.launcher, self._call, annotations, artifact.implicit_stream)

    @property
    def hsaco(self) -> bytes:
        """The bytes that a device runtime loads (`code.data`)."""
        return self._artifact.code.data

    @property
    def isa(self) -> str:
        """The assembly text; compiles once more, because code objects do not carry it.

        Raises:
            UserValueError: ``FLYDSL_RUNTIME_RUN_ONLY`` is set.
        """
        if not self._isa:
            if settings.RUN_ONLY.get():
                raise UserValueError(
                    f"{settings.RUN_ONLY.name} forbids compiling, which the assembly text needs",
                    code="FLY-U466",
                    hint="unset it; `flydsl compile` writes the text to a file ahead of time",
                ).with_location(user_location())
            from flydsl.compiler.compilation import compile_call

            options = replace(self._call.options, want_isa=True)
            artifact, _ = compile_call(self._function, replace(self._call, options=options))
            self._isa = artifact.code.isa
        return self._isa

    def report(self) -> str:
        """Return a table of the kernels' resources: one line each."""
        lines = ["kernel                          vgpr agpr sgpr    lds scratch spills waves/simd"]
        lines += [
            f"{info.name:30} {info.vgpr:5} {info.agpr:4} {info.sgpr:4} {info.lds_static:6} "
            f"{info.scratch:7} {info.spills:6} {info.waves_per_simd:10}"
            for info in self.kernels
        ]
        return "\n".join(lines)

    def max_blocks_per_cu(self) -> int:
        """Return how many workgroups one compute unit holds at once, as the device's driver says.

        The device is that of the tensors it was compiled with; with host tensors, the first one of
        the target's architecture. Nothing is launched.

        Raises:
            UserValueError: The program does not make exactly one kernel launch, or its block or
                shared memory is computed at run time.
            TargetError: There is no such device, or its driver refuses.
        """
        from flydsl.compiler.occupancy import max_blocks

        with at_user_line():
            return max_blocks(self._artifact, self._call.placement)

    def save(self, path: str | Path) -> None:
        """Write this launcher to a file that `flydsl.compiler.load` reads.

        Raises:
            UserTypeError: A parameter is of a kind that plain values cannot describe, or `path` is
                no path.
            UserOSError: The file cannot be written.
        """
        from flydsl.compiler.aot import save

        with at_user_line():
            save(path, self.description, self._artifact)

    def export_to_c(
        self, directory: str | Path, base: str, prefix: str | None = None
    ) -> tuple[Path, Path]:
        """Write a C header and source that embed the code and launch it through HIP.

        Args:
            directory: An existing folder.
            base: Name of the files without suffix.
            prefix: Beginning of every C name, and the launching function; None takes `base`.

        Returns:
            The paths of the header and the source.

        Raises:
            UserError: A name is unusable, or the program cannot be exported.
            UserOSError: There is no such folder (a `FileNotFoundError`, or `NotADirectoryError` for
                a file), or it cannot be written.
        """
        from flydsl.compiler.aot import export_to_c

        with at_user_line():
            chosen = base if prefix is None else prefix
            return export_to_c(directory, base, chosen, self.description, self._artifact)

    @property
    def artifact(self) -> Artifact:
        """Everything the compile produced."""
        return self._artifact

    @property
    def code(self) -> CodeObject:
        """The device code object."""
        return self._artifact.code

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Resources of each kernel: registers, shared memory, spills, occupancy."""
        return self._artifact.code.kernels

    @property
    def events(self) -> tuple[CompileEvent, ...]:
        """Where the time of the compile went."""
        return self._artifact.events

    def __repr__(self) -> str:
        return f"<CompiledFunction {self._artifact.launcher} for {self._call.target.name}>"


class _Compile:
    """The function `compile`; ``compile[hints]`` is the same with compile hints."""

    def __init__(self, hints: Mapping[str, object] | None = None) -> None:
        self._hints = hints

    def __getitem__(self, hints: object) -> _Compile:
        """Return a `compile` that overlays `hints` (see `CompileOptions.with_hints`).

        Raises:
            UserTypeError: `hints` is no mapping.
            UserError: A hint is unknown or has an unusable value.
        """
        with at_user_line():
            if not isinstance(hints, Mapping):
                raise UserTypeError(
                    "compile hints are a mapping", code="FLY-U421", value=hints, allowed="a dict"
                )
            merged = {**(self._hints or {}), **{k: v for k, v in hints.items() if v is not None}}
            compile_options(merged)
        return _Compile(merged)

    def __call__(self, function: object, *args: object, **kwargs: object) -> Any:
        """Compile a launcher for the kinds of these arguments.

        Host tensors are placeholders: nothing is launched for them. With tensors on a device the
        kernels are launched once.

        Args:
            function: A function decorated with `jit`.
            *args: Arguments as for a call.
            **kwargs: Arguments as for a call.

        Returns:
            The `CompiledFunction`, which refuses calls as long as ``COMPILE_ONLY=1`` is set. With
            hints and without arguments, `function` itself, which keeps the hints for its own calls.

        Raises:
            UserTypeError: `function` is not decorated with `jit`.
            UserError, TargetError: The program cannot be compiled.
        """
        with at_user_line():
            if not isinstance(function, JitFunction):
                raise UserTypeError(
                    "compile takes a function decorated with @flyc.jit",
                    code="FLY-U421",
                    value=function,
                )
            bare = not args and not kwargs and function.signature.parameters
            if self._hints is not None and bare:
                cache_of(function).set_hints(self._hints)
                return function
            driver = Driver()
            call = driver.resolve(function, function.bind(args, kwargs), self._hints)
            compiled = CompiledFunction(driver, function, call, self._hints)
            if call.placement is not None and any(
                device != "cpu" for spec in call.specs.values() for device in spec.devices
            ):
                compiled(*call.values.values())
            return compiled


compile = _Compile()  # noqa: A001 - the public name
"""Compile a launcher ahead of its calls; see `_Compile.__call__`."""
