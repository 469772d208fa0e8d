"""Codegen workers: children that start early, are replaced when they die, and are never left."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeAlias

from flydsl.codegen.child import Child
from flydsl.codegen.options import Options
from flydsl.codegen.request import CodegenRequest, CodegenResult
from flydsl.diagnostics import FlyDSLWarning, user_location
from flydsl.errors import CompilerBug, FlyDSLError, TargetError

__all__ = [
    "CodegenWorker",
    "Observer",
    "WorkerPool",
    "observing",
    "shared_worker",
    "warm_up",
    "warn_if_long",
]

Observer: TypeAlias = Callable[[CodegenRequest, CodegenResult], None]

_MACHINE_FIELDS = ("triple", "cpu", "features", "opt_level", "reloc", "code_model")
_REQUEST_FIELDS = (
    *_MACHINE_FIELDS,
    "llvm_ir",
    "want_object",
    "want_asm",
    "want_ir",
    "vectorize",
    "libraries",
)
_MESSAGE_LIMIT = 4000


def _message(kind: str, request: CodegenRequest, names: Iterable[str]) -> dict[str, Any]:
    return {"kind": kind, **{name: getattr(request, name) for name in names}}


def _shortened(text: str) -> str:
    text = text.strip()
    if len(text) <= _MESSAGE_LIMIT:
        return text
    # The cause is at the start, the crash report's stack at the end; the middle says least.
    half = _MESSAGE_LIMIT // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


def _refusal(kind: str, text: str, request: CodegenRequest) -> FlyDSLError:
    """Translate a failure that the child reported."""
    text = _shortened(text)
    if kind == "llvmlite":
        return TargetError(
            f"the codegen worker could not import llvmlite: {text}",
            code="FLY-T421",
            hint="install it with: pip install 'llvmlite>=0.50'",
        )
    if kind == "triple":
        return TargetError(
            f"this llvmlite has no back end for {request.triple}: {text}", code="FLY-T422"
        )
    if kind == "cpu":
        return TargetError(
            f"LLVM does not know processor {request.cpu!r} with features {request.features!r}: "
            f"{text}",
            code="FLY-T423",
        )
    if kind == "library":
        return TargetError(f"an external function cannot be linked: {text}", code="FLY-T425")
    if kind == "ir":
        return CompilerBug(f"LLVM rejects the generated IR: {text}", code="FLY-B420")
    return TargetError(f"the LLVM back end reports: {text}", code="FLY-T424")


def _death(status: int, text: str) -> TargetError:
    """Describe the end of a child that gave no answer."""
    text = _shortened(text)
    if status >= 0:
        how = f"exit status {status}"
    else:
        try:
            how = signal.Signals(-status).name
        except ValueError:
            how = f"signal {-status}"
    what = f"the LLVM back end reports: {text}" if text else "the LLVM back end died"
    return TargetError(f"{what} (codegen worker ended with {how})", code="FLY-T424")


_LONG = 4 << 20
"""Characters of LLVM IR that the back end needs a minute or more for."""


def warn_if_long(request: CodegenRequest) -> None:
    """Warn of a program that the back end needs minutes for; what emits device code calls it."""
    if len(request.llvm_ir) <= _LONG:
        return
    where = user_location()
    warnings.warn(
        f"compiling{f' at {where}' if where else ''} will take minutes: the program is "
        f"{len(request.llvm_ir) / 2**20:.0f} MiB of LLVM IR; loops of fx.range_constexpr are "
        "written out, those of range are not",
        FlyDSLWarning,
        stacklevel=2,
    )


class CodegenWorker:
    """Compiles LLVM IR in a child process, one request at a time; safe to call from many threads.

    The child starts on the first request, or earlier through `warm_up`. Requests with LLVM options
    go to a second child that was started with exactly those; only the latest such child is kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[Options, Child] = {}

    def _child(self, options: Options) -> Child:
        child = self._children.get(options)
        if child is not None and child.alive():
            return child
        for other in [key for key in self._children if key and key != options and options]:
            self._children.pop(other).close()
        if child is not None:
            self._children.pop(options).close()
        child = self._children[options] = Child(options)
        return child

    @contextmanager
    def _using(self, options: Options) -> Iterator[Child]:
        """Hold the child for one exchange; drop it if the exchange was cut short."""
        with self._lock:
            child = self._child(options)
            try:
                yield child
            except BaseException:
                # An interrupt between request and answer: the next answer would be the wrong one.
                self._children.pop(options, None)
                child.close()
                raise

    def warm_up(self, request: CodegenRequest | None = None) -> None:
        """Start the child and return at once, so that its start overlaps the caller's work.

        Args:
            request: If given, the child also creates the target machine that this request needs.

        Raises:
            TargetError: There is no llvmlite, or no interpreter to run the child with.
        """
        with self._using(request.options if request else ()) as child:
            if request is not None:
                child.send(_message("prepare", request, _MACHINE_FIELDS))

    def compile(self, request: CodegenRequest) -> CodegenResult:
        """Run `request` and return the result.

        Raises:
            TargetError: The back end cannot compile this for the target; the text is LLVM's.
            CompilerBug: LLVM rejects the IR itself.
        """
        with self._using(request.options) as child:
            sent = time.perf_counter()
            answer = child.ask(_message("compile", request, _REQUEST_FIELDS))
            if answer is None:
                raise _death(*child.obituary())
        if not answer["ok"]:
            raise _refusal(answer["kind"], answer["text"], request)
        result = CodegenResult(
            object=answer["object"],
            asm=answer["asm"],
            llvm_ir=answer["llvm_ir"],
            remarks=tuple(line for line in answer["remarks"].splitlines() if line.strip()),
            timings=answer["timings"],
            wall_seconds=time.perf_counter() - sent,
            peak_rss=answer["peak_rss"],
        )
        for observe in _OBSERVERS.get():
            observe(request, result)
        return result

    def pids(self) -> tuple[int, ...]:
        """Return the process identifiers of the children that run now."""
        with self._lock:
            return tuple(child.pid for child in self._children.values() if child.alive())

    def close(self) -> None:
        """End the children; a later request starts a new one."""
        with self._lock:
            while self._children:
                self._children.popitem()[1].close()

    def _at_exit(self) -> None:
        # Another thread may be in the middle of an exchange and hold the lock; its answer is no
        # longer wanted, so the child ends without waiting for it.
        locked = self._lock.acquire(timeout=0.2)
        for child in list(self._children.values()):
            child.kill()
        if locked:
            self._lock.release()
            self.close()

    def _after_fork(self) -> None:
        # The parent's children answer the parent. Its lock may have been held by another thread.
        self._lock = threading.Lock()
        while self._children:
            self._children.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class WorkerPool:
    """Several workers for parallel compiles, e.g. of tuning candidates.

    Args:
        size: Number of child processes, at least 1.

    Raises:
        ValueError: `size` is below 1.
    """

    def __init__(self, size: int) -> None:
        from concurrent.futures import ThreadPoolExecutor
        from queue import SimpleQueue

        if size < 1:
            raise ValueError(f"a pool needs at least one worker, not {size}")
        self._workers = [CodegenWorker() for _ in range(size)]
        self._idle: SimpleQueue[CodegenWorker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="flydsl-codegen")

    def _run(self, request: CodegenRequest) -> CodegenResult | FlyDSLError:
        worker = self._idle.get()
        try:
            return worker.compile(request)
        except FlyDSLError as error:
            return error
        finally:
            self._idle.put(worker)

    def map(self, requests: Iterable[CodegenRequest]) -> Iterator[CodegenResult | FlyDSLError]:
        """Yield the result of each request in order, or the error that it ended with."""
        return self._threads.map(self._run, requests)

    def close(self) -> None:
        """Wait for running requests and end the children."""
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("flydsl_codegen_observers", default=())


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call `observer` with every request that is compiled in this context, and its result."""
    token = _OBSERVERS.set((*_OBSERVERS.get(), observer))
    try:
        yield
    finally:
        _OBSERVERS.reset(token)


_SHARED = CodegenWorker()
"""The one worker that compiles share; a cache of a process, as good as new after `close`."""

atexit.register(_SHARED._at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED._after_fork)


def shared_worker() -> CodegenWorker:
    """Return the worker that all compiles of this process share."""
    return _SHARED


def warm_up(request: CodegenRequest | None = None) -> None:
    """Start the shared worker's child; see `CodegenWorker.warm_up`."""
    _SHARED.warm_up(request)
