"""Machine code for this host: position-independent, without relocations, cacheable as bytes."""

from __future__ import annotations

from flydsl.codegen.machine_code import HOST_FEATURES, MachineCode, host_triple
from flydsl.codegen.request import CodegenRequest
from flydsl.codegen.worker import shared_worker

__all__ = ["compile_host", "host_request"]


def host_request(llvm_ir: str, want_asm: bool = False) -> CodegenRequest:
    """Return the request that compiles host code; its options do not follow a kernel's."""
    triple = host_triple()
    # The baseline processor and little optimisation: a stub is a few dozen integer instructions,
    # and its bytes may be cached on a disk that other machines share.
    return CodegenRequest(
        llvm_ir,
        triple,
        features=HOST_FEATURES.get(triple, ""),
        opt_level=0,
        want_asm=want_asm,
        vectorize=False,
    )


def compile_host(llvm_ir: str, symbol: str, want_asm: bool = False) -> MachineCode:
    """Compile LLVM IR text for this host.

    Args:
        llvm_ir: The module; it may refer to nothing outside itself and hold no data.
        symbol: The function to call.
        want_asm: Also generate assembly text, for whoever observes the worker.

    Raises:
        TargetError: Code cannot be made for this kind of host.
        CompilerBug: The code needs something outside itself.
    """
    result = shared_worker().compile(host_request(llvm_ir, want_asm))
    return MachineCode.from_object(result.object, symbol)
