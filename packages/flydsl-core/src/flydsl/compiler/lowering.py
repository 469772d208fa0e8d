"""Runs the stages of a pipeline on a module, and the host part of a compile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from flydsl import mlir
from flydsl.codegen import observing
from flydsl.codegen.host import compile_host
from flydsl.codegen.machine_code import MachineCode
from flydsl.compiler.dumps import Dumper
from flydsl.compiler.timing import Recorder
from flydsl.config import CompileOptions
from flydsl.dialects.verify import verify_module
from flydsl.errors import CompilerBug
from flydsl.passes.host_lowering import STUB, append_thunks
from flydsl.passes.rewriting import gpu_modules
from flydsl.plugins.manager import load_dotted, plugin_manager
from flydsl.plugins.payloads import CodeObject, Stage
from flydsl.plugins.protocols import Target
from flydsl.targets import NEUTRAL_PASSES

__all__ = ["HOST_PASS", "HOST_PIPELINE", "STUB", "TRACED", "Lowering"]

TRACED = "traced"
"""What dumps call the module before the first pass."""
HOST_PASS = "fly-host-lowering"

HOST_PIPELINE = (
    "builtin.module(convert-scf-to-cf,arith-expand,convert-to-llvm,reconcile-unrealized-casts)"
)


class Lowering:
    """Lowers one traced module, step by step, and keeps the record of it.

    Args:
        module: The traced module; it is changed in place.
        target: What the device part is compiled for.
        options: Compile options.
        recorder: Takes the timings.
        dumper: Takes the intermediate texts.
    """

    def __init__(
        self,
        module: Any,
        target: Target,
        options: CompileOptions,
        recorder: Recorder,
        dumper: Dumper,
    ) -> None:
        self.module = module
        self.target = target
        self.options = options
        self.recorder = recorder
        self.dumper = dumper

    def run(self, stage: Stage) -> None:
        """Run one stage.

        Raises:
            UserError, TargetError: The program cannot be compiled for the target.
            CompilerBug: A pass failed, or (under ``FLYDSL_VERIFY``) left invalid IR behind.
        """
        with self.recorder.step("pass", stage.name):
            if stage.kind == "mlir":
                mlir.run_pipeline(self.module, stage.text)
            else:
                _pass(stage.name)(self.module, self.target, **dict(stage.options))
        self.after(stage.name)

    def after(self, name: str) -> None:
        """Dump and, if asked to, verify what the step called `name` left.

        Raises:
            CompilerBug: The verifiers object.
        """
        self.dumper.module(name, self.module)
        if not self.options.verify:
            return
        with self.recorder.step("verify", name):
            if name in NEUTRAL_PASSES or name == TRACED:
                verify_module(self.module, name)
            elif name == HOST_PASS or not (devices := list(gpu_modules(self.module))):
                mlir.verify(self.module, name)
            else:
                # A target's stages turn kernels into what launches, which still wait for the host
                # pass, do not verify against.
                for device in devices:
                    mlir.verify(device, name)

    def emit(self, emit: Callable[[Any, Target, CompileOptions], CodeObject]) -> CodeObject:
        """Turn the lowered device part into a code object with `flydsl.targets.emit`."""
        translate, link = ("translate", "device"), ("link", "device")
        with self.recorder.emission("device", translate, link), self._dumping("device"):
            code = emit(self.module, self.target, self.options)
        self.dumper.code(code)
        return code

    def host_stub(self, code: CodeObject) -> MachineCode:
        """Compile the launcher; the device part is no longer needed and goes away.

        Args:
            code: The code object, whose metadata says where kernel arguments go.

        Raises:
            CompilerBug: The launcher does not lower, or needs something outside itself.
        """
        with self.recorder.step("host", HOST_PASS):
            _pass(HOST_PASS)(self.module, self.target, kernels=code.kernels)
        self.after(HOST_PASS)
        with self.recorder.step("host", "convert"):
            mlir.run_pipeline(self.module, HOST_PIPELINE)
        self.after("host-llvm")
        with self.recorder.step("host", "translate"):
            # Translating an invalid module would end the process.
            mlir.verify(self.module, "the host pipeline")
            llvm_ir = mlir.llvm.translate_module_to_llvmir(self.module.operation)
        if not llvm_ir:
            raise CompilerBug("MLIR cannot translate the launcher", code="FLY-B431")
        llvm_ir = append_thunks(llvm_ir, self.module)
        request, extract = ("host", "request"), ("host", "extract")
        with self.recorder.emission("host", request, extract), self._dumping("host"):
            return compile_host(llvm_ir, STUB, self.options.dump_ir)

    def _dumping(self, unit: str) -> AbstractContextManager[None]:
        return observing(partial(self.dumper.observe, unit))


def _pass(name: str) -> Callable[..., None]:
    manager = plugin_manager()
    cache = manager.cache("passes")
    found = cache.get(name)
    if found is None:
        dotted = manager.announced.passes.get(name)
        if dotted is None:
            raise CompilerBug(
                f"no plugin provides the pass {name!r}",
                code="FLY-B432",
                allowed=", ".join(sorted(manager.announced.passes)),
            )
        found = cache[name] = load_dotted(dotted)
        if not callable(found):
            raise CompilerBug(f"the pass {name!r} is not callable", code="FLY-B432", value=found)
    function: Callable[..., None] = found
    return function
