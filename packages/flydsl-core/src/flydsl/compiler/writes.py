"""Which tensor parameters of a launcher its kernels write to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flydsl import frontend, mlir
from flydsl.compiler.driver import Driver
from flydsl.compiler.dumps import Dumper
from flydsl.compiler.lowering import Lowering
from flydsl.compiler.timing import Recorder
from flydsl.config import CompileOptions
from flydsl.errors import FlyDSLError, UserValueError
from flydsl.targets import neutral_stages

if TYPE_CHECKING:
    from flydsl.frontend import JitFunction

__all__ = ["check_writes", "written_by"]


def check_writes(function: JitFunction, values: dict[str, Any], allowed: Collection[str]) -> None:
    """Trace a launcher as if the memory of its other tensors must not change.

    Args:
        function: The launcher.
        values: Its arguments by name.
        allowed: Names of the tensor parameters that may be written.

    Raises:
        UserValueError: A kernel writes to another one (FLY-U341; its value is the name).
    """
    call = Driver().resolve(function, values)
    specs = {
        name: replace(spec, read_only=spec.read_only or name not in allowed)
        for name, spec in call.specs.items()
    }
    traced = frontend.trace(
        function,
        specs,
        call.target,
        context=mlir.thread_context(),
        fast_math=call.options.fastmath,
    )
    options: CompileOptions = replace(call.options, dump_ir=False)
    lowering = Lowering(
        traced.module, call.target, options, Recorder(call.target.name), Dumper(options, "", "")
    )
    for stage in neutral_stages():
        lowering.run(stage)


def written_by(
    function: JitFunction, values: dict[str, Any], known: Collection[str] = ()
) -> frozenset[str] | None:
    """Return the names of the tensor parameters that the kernels of a call write to.

    Args:
        function: The launcher.
        values: Its arguments by name.
        known: Names to add: with all of them the launcher is traced once, else once more for each.

    Returns:
        The names; None if that cannot be told, as of pointers and of tensors in structs.
    """
    specs = Driver().resolve(function, values).specs.values()
    if any(spec.parts or spec.ir_type.startswith("!fly.ptr") for spec in specs):
        return None
    written = set(known)
    while True:
        try:
            check_writes(function, values, written)
        except UserValueError as error:
            if error.code != "FLY-U341" or error.value in (None, *written):
                return None
            written.add(str(error.value))
        except FlyDSLError:
            return None
        else:
            return frozenset(written)
