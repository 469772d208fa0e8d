"""The program that a codegen worker's child process runs.

Imported by its file's directory, not as part of the package, so that a child starts without running
`flydsl`'s package code: it may import the standard library and llvmlite only.

Protocol, both directions: eight bytes of little-endian payload length, then a `marshal` payload
(both ends are the same interpreter). The first message is a mapping with LLVM options; then
requests. A request of kind ``"prepare"`` has no answer. The child ends when its input does.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import signal
import struct
import sys
import time
from typing import Any, TypeAlias

__all__ = ["serve"]

Message: TypeAlias = dict[str, Any]

_REJECTED = ("is not a recognized processor", "is not a recognized feature")


class _RefusedError(Exception):
    """LLVM refuses the request; `args` are the kind of failure and LLVM's text."""


def _cpu() -> float:
    return time.process_time()


def _peak_rss() -> int:
    # ru_maxrss starts at the parent's peak (it survives exec), so prefer this process' own mark.
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return usage if sys.platform == "darwin" else usage * 1024
    return 0


class _Stderr:
    """LLVM's messages: descriptor 2 is a file that the parent made and can still read after us."""

    def take(self) -> str:
        # The parent opened the file, so its offset is shared: read by position, then start over.
        # C streams write unbuffered to descriptor 2, but LLVM's C++ stream may hold text back.
        size = os.fstat(2).st_size
        if not size:
            return ""
        text = os.pread(2, size, 0).decode("utf-8", "replace")
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
        return text


class _Compiler:
    def __init__(self, options: list[tuple[str, object]]) -> None:
        import llvmlite.binding as llvm

        self.llvm = llvm
        for name, value in options:
            text = ("true" if value else "false") if isinstance(value, bool) else str(value)
            llvm.set_option("flydsl", f"--{name}={text}")
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self.stderr = _Stderr()
        self.machines: dict[tuple[object, ...], tuple[Any, str]] = {}

    def machine(self, request: Message) -> tuple[Any, str]:
        """Return the target machine and data layout text for a request, cached."""
        key = tuple(
            request[name]
            for name in ("triple", "cpu", "features", "opt_level", "reloc", "code_model")
        )
        found = self.machines.get(key)
        if found is not None:
            return found
        triple, cpu, features, opt_level, reloc, code_model = key
        try:
            target = self.llvm.Target.from_triple(triple)
        except RuntimeError as error:
            raise _RefusedError("triple", str(error)) from error
        machine = target.create_target_machine(
            cpu=cpu, features=features, opt=opt_level, reloc=reloc, codemodel=code_model
        )
        text = self.stderr.take()
        if any(phrase in text for phrase in _REJECTED):
            raise _RefusedError("cpu", text)
        found = self.machines[key] = (machine, str(machine.target_data))
        return found

    def _parse(self, text: str, triple: str, layout: str) -> Any:
        # Without these lines the parser would assume another address space for stack objects.
        header = ""
        if "\ntarget datalayout" not in text and not text.startswith("target datalayout"):
            header += f'target datalayout = "{layout}"\n'
        if "\ntarget triple" not in text and not text.startswith("target triple"):
            header += f'target triple = "{triple}"\n'
        try:
            module = self.llvm.parse_assembly(header + text)
            module.verify()
        except RuntimeError as error:
            raise _RefusedError("ir", str(error)) from error
        module.data_layout = layout
        module.triple = triple
        return module

    def _link(self, module: Any, library: bytes, functions: Any, layout: str) -> None:
        """Link a library into `module`; its definitions become private."""
        bitcode = library.startswith((b"BC\xc0\xde", b"\xde\xc0\x17\x0b"))
        wanted = ", ".join(name for name, _ in functions)
        try:
            if bitcode:
                part = self.llvm.parse_bitcode(library)
            else:
                part = self._parse(library.decode(), module.triple, layout)
            part.verify()
        except RuntimeError as error:
            raise _RefusedError("library", f"{wanted}: {error}") from error
        except _RefusedError as refused:
            raise _RefusedError("library", f"{wanted}: {refused.args[1]}") from refused
        part.triple = module.triple
        part.data_layout = layout
        defined = {f.name: f for f in part.functions if not f.is_declaration}
        for name, signature in functions:
            if name not in defined:
                there = ", ".join(sorted(defined)) or "nothing"
                raise _RefusedError("library", f"{name}: the library defines {there}")
            found = str(defined[name].global_value_type)
            if found != signature:
                text = f"{name}: it is declared as {signature} and defined as {found}"
                raise _RefusedError("library", text)
        for mine in module.functions:
            if not mine.is_declaration and mine.name in defined:
                raise _RefusedError("library", f"{mine.name}: the kernel has that name too")
        private = [*defined, *(g.name for g in part.global_variables if not g.is_declaration)]
        try:
            module.link_in(part)
        except RuntimeError as error:
            raise _RefusedError("library", f"{wanted}: {error}") from error
        for value in (*module.functions, *module.global_variables):
            if value.name in private and not value.name.startswith("llvm."):
                value.linkage = "internal"

    def _optimise(self, module: Any, machine: Any, request: Message) -> None:
        tuning = self.llvm.create_pipeline_tuning_options(speed_level=request["opt_level"])
        tuning.loop_vectorization = request["vectorize"]
        tuning.slp_vectorization = request["vectorize"]
        builder = self.llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)

    def compile(self, request: Message) -> Message:
        """Run one request."""
        timings: dict[str, float] = {}
        clock = [_cpu()]

        def lap(name: str) -> None:
            now = _cpu()
            timings[name] = now - clock[0]
            clock[0] = now

        machine, layout = self.machine(request)
        lap("machine")
        module = self._parse(request["llvm_ir"], request["triple"], layout)
        for library, functions in request["libraries"]:
            self._link(module, library, functions, layout)
        lap("parse")
        if request["opt_level"]:
            self._optimise(module, machine, request)
        lap("optimise")
        answer: Message = {"ok": True, "object": b"", "asm": "", "llvm_ir": ""}
        if request["want_ir"]:
            answer["llvm_ir"] = str(module)
        # Code generation rewrites the module, so the second emission needs its own copy.
        copy = module.clone() if request["want_asm"] and request["want_object"] else module
        try:
            if request["want_object"]:
                clock[0] = _cpu()
                answer["object"] = machine.emit_object(module)
                lap("codegen")
            if request["want_asm"]:
                machine.set_asm_verbosity(True)
                answer["asm"] = machine.emit_assembly(copy)
                lap("assembly")
        except RuntimeError as error:
            raise _RefusedError("codegen", str(error)) from error
        text = self.stderr.take()
        if "error:" in text:
            raise _RefusedError("codegen", text)
        answer.update(timings=timings, remarks=text, peak_rss=_peak_rss())
        return answer

    def answer(self, request: Message) -> Message | None:
        """Return the answer to `request`, or None when its kind has none."""
        prepare = request["kind"] == "prepare"
        try:
            if prepare:
                self.machine(request)
                return None
            return self.compile(request)
        except _RefusedError as refused:
            # What a preparation ran into, the compile that follows reports.
            kind, text = refused.args
            return None if prepare else {"ok": False, "kind": kind, "text": text}


def _read(stream: Any) -> Message | None:
    head = stream.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    body = stream.read(size)
    if len(body) < size:
        return None
    message: Message = marshal.loads(body)
    return message


def _write(stream: Any, message: Message) -> None:
    body = marshal.dumps(message)
    stream.write(struct.pack("<Q", len(body)))
    stream.write(body)
    stream.flush()


def _keep_memory() -> None:
    # Every compile frees tens of megabytes; giving them back to the system and faulting them in
    # again costs a tenth of the next one. The numbers are those of glibc's malloc.h.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((-1, 1 << 28), (-2, 1 << 24), (-3, 1 << 25)):
            mallopt(parameter, value)


def _limit_core_dumps() -> None:
    # An abort inside LLVM is an expected way to fail; it should not leave a core file behind.
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    except (ImportError, OSError, ValueError):
        pass


def serve() -> None:
    """Answer requests on standard input until it ends."""
    # The terminal sends an interrupt to the whole group; ending is up to the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_core_dumps()
    _keep_memory()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever LLVM prints belongs to the diagnostics
    requests = os.fdopen(0, "rb")
    first = _read(requests)
    if first is None:
        return
    try:
        compiler = _Compiler(first["options"])
    except ImportError as error:
        _write(answers, {"ok": False, "kind": "llvmlite", "text": str(error)})
        return
    while (request := _read(requests)) is not None:
        answer = compiler.answer(request)
        if answer is None:
            continue
        try:
            _write(answers, answer)
        except BrokenPipeError:
            return
