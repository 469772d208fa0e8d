"""One compile: trace, device pipeline, emission, host stub."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flydsl import codegen, frontend, mlir
from flydsl.codegen.host import host_request
from flydsl.compiler.artifact import Artifact
from flydsl.compiler.dispatch import argument_format
from flydsl.compiler.dumps import Dumper
from flydsl.compiler.lowering import TRACED, Lowering
from flydsl.compiler.occupancy import launch_sizes
from flydsl.compiler.timing import Recorder
from flydsl.targets import emit, pipeline_for

if TYPE_CHECKING:
    from flydsl.compiler.driver import Call

__all__ = ["compile_call"]


def compile_call(function: frontend.JitFunction, call: Call) -> tuple[Artifact, Any]:
    """Compile `function` for `call`.

    Returns:
        The artifact, and the dependencies of the program (`flydsl.frontend.Dependencies`).

    Raises:
        UserError, TargetError: The program cannot be compiled; at the user's line.
        CompilerBug: A defect of ours or of a plugin.
    """
    wall, cpu = time.perf_counter(), time.thread_time()
    recorder = Recorder(call.target.name)
    recorder.add("cache-miss", function.name)
    # The worker's start and its set-up for this host overlap tracing.
    codegen.warm_up(host_request(""))
    context = mlir.thread_context()
    with recorder.step("trace", function.name):
        traced = frontend.trace(
            function,
            dict(call.specs),
            call.target,
            context=context,
            fast_math=call.options.fastmath,
        )
    dumper = Dumper(call.options, function.name, call.key.digest)
    lowering = Lowering(traced.module, call.target, call.options, recorder, dumper)
    lowering.after(TRACED)
    for stage in pipeline_for(call.target, call.options).stages:
        lowering.run(stage)
    launches = launch_sizes(traced.module)
    code = lowering.emit(emit)
    stub = lowering.host_stub(code)
    elapsed = time.perf_counter() - wall, time.thread_time() - cpu
    recorder.add("done", function.name, *elapsed)
    artifact = Artifact(
        launcher=function.name,
        code=code,
        stub=stub,
        argument_format=argument_format(tuple(call.specs.values()), traced.implicit_stream),
        kernels=tuple(kernel.name for kernel in code.kernels),
        implicit_stream=traced.implicit_stream,
        events=tuple(recorder.events),
        sites=traced.sites,
        launches=launches,
    )
    return artifact, traced.dependencies
