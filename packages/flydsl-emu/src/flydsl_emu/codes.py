"""Error codes of the emulator (``FLY-?7nn``)."""

from __future__ import annotations

__all__ = ["CODES"]

CODES: dict[str, str] = {
    "FLY-T701": "the bytes are not an AMD code object that the emulator can load",
    "FLY-T702": "the emulator has no decode table for this architecture",
    "FLY-T703": "instruction bytes that decode to nothing",
    "FLY-T704": "an instruction that the emulator does not implement",
    "FLY-T705": "the launch asks for a kernel set-up that the emulator does not provide",
    "FLY-T706": "the host cannot run what the emulator's JIT generates",
    "FLY-T707": "llvm-mca cannot be run, or does not analyse a loop",
    "FLY-U711": "a kernel accessed memory outside every allocation of the launch",
    "FLY-U712": "a kernel accessed LDS outside its group segment",
    "FLY-U713": "waves wait for one another forever",
    "FLY-U714": "a kernel ran more instructions than the step limit allows",
    "FLY-U715": "a kernel left its own code",
    "FLY-U716": "a kernel wrote memory that the launch declares read-only",
    "FLY-U717": "a kernel accessed its private segment out of bounds",
    "FLY-U718": "a kernel reached a trap instruction",
    "FLY-U720": "a workgroup size that the kernel was not compiled for, or a grid that is too "
    "large or not whole clusters",
    "FLY-U721": "more LDS than the architecture has",
    "FLY-U722": "a debugger's access to a register or to memory that a wave does not have",
    "FLY-U723": "nothing to trace",
    "FLY-U724": "a breakpoint where a kernel has no code",
    "FLY-U726": "an emulated stream or graph is used wrongly",
    "FLY-U727": "something that is no contiguous host array is shared with kernels",
    "FLY-U725": "nothing to report, or a file that cannot be read",
    "FLY-U728": "an indexed vector register that the kernel does not have",
    "FLY-U729": "a tensor argument of a kernel has elements but no memory",
    "FLY-U719": "an access is not aligned as the instruction demands",
    "FLY-U731": "sanitizer: a register or LDS is used before a wait makes sure of it",
    "FLY-U732": "sanitizer: two instructions need more wait states between them",
    "FLY-U733": "sanitizer: waves access LDS without an order between them",
    "FLY-U734": "sanitizer: a value that nothing has written decides an address, branch or store",
    "FLY-U735": "sanitizer: an access outside the memory that it belongs to",
    "FLY-U736": "sanitizer: threads of a workgroup do not meet at the same barriers",
    "FLY-U737": "sanitizer: a scalar is read from the lanes of a wave in which none executes",
    "FLY-T738": "the sanitizer does not know this architecture's wait counters",
    "FLY-U739": "FLYDSL_SANITIZE or `sanitize` names a check that does not exist",
    "FLY-U740": "a tensor descriptor or a load for a cluster names what cannot be transferred",
}
