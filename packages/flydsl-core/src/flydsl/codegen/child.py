"""One child process that runs `worker_main`, and the pipe to it."""

from __future__ import annotations

import contextlib
import marshal
import os
import struct
import sys
from typing import TYPE_CHECKING, Any

from flydsl.codegen.options import Options
from flydsl.errors import TargetError

if TYPE_CHECKING:
    import subprocess
    from typing import IO

__all__ = ["Child"]

_INSTALL_HINT = "install it with: pip install 'llvmlite>=0.50'"


def _interpreter() -> str:
    """Return a Python interpreter; an embedding application's `sys.executable` may be no Python."""
    name = os.path.basename(sys.executable or "").lower()
    if "python" in name or "pypy" in name:
        return sys.executable
    candidate = os.path.join(
        sys.exec_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"
    )
    if os.path.exists(candidate):
        return candidate
    raise TargetError(
        "the codegen worker needs a Python interpreter and none was found",
        code="FLY-T420",
        value=sys.executable,
        hint="set sys.executable to the interpreter of the environment that flydsl is installed in",
    )


def _llvmlite_folder() -> str:
    """Return the folder to import llvmlite from, without importing it."""
    from importlib.util import find_spec

    spec = find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise TargetError("llvmlite is not installed", code="FLY-T421", hint=_INSTALL_HINT)
    return os.path.dirname(next(iter(spec.submodule_search_locations)))


class Child:
    """A running codegen process. Not thread-safe: `CodegenWorker` serialises its use.

    Args:
        options: LLVM command-line options for the life of the process.
    """

    def __init__(self, options: Options = ()) -> None:
        import subprocess
        import tempfile

        here = os.path.dirname(os.path.abspath(__file__))
        program = (
            f"import sys; sys.path += [{_llvmlite_folder()!r}, {here!r}]\n"
            "import worker_main; worker_main.serve()"
        )
        # Messages of LLVM go to a file and not a pipe: it can be read after the child has died, and
        # no amount of text blocks the child.
        self._messages: IO[bytes] = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115
        # -I and -S: no user site, no .pth files, no environment; a third of the start-up time.
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [_interpreter(), "-I", "-S", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            # Buffers have locks, which a process that is forked during an exchange finds taken.
            bufsize=0,
        )
        self._owner = os.getpid()
        self._send({"options": [list(pair) for pair in options]})

    @property
    def pid(self) -> int:
        """Process identifier of the child."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the process runs and belongs to this process (not to a parent that forked)."""
        return self._owner == os.getpid() and self._process.poll() is None

    def _send(self, message: dict[str, Any]) -> None:
        body = marshal.dumps(message)
        stream = self._process.stdin
        assert stream is not None
        left = memoryview(struct.pack("<Q", len(body)) + body)
        # If the child is gone, reading the answer says so.
        with contextlib.suppress(BrokenPipeError, ValueError):
            while left:
                left = left[stream.write(left) :]

    def send(self, message: dict[str, Any]) -> None:
        """Send a request that has no answer."""
        self._send(message)

    def ask(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Send a request and return its answer, or None if the child died instead."""
        self._send(message)
        head = self._read(8)
        if head is None:
            return None
        (size,) = struct.unpack("<Q", head)
        body = self._read(size)
        if body is None:
            return None
        answer: dict[str, Any] = marshal.loads(body)
        return answer

    def _read(self, size: int) -> bytearray | None:
        """Return so many bytes of the child's output, or None if it ends before."""
        stream: Any = self._process.stdout
        data = bytearray(size)
        left = memoryview(data)
        while left:
            count = stream.readinto(left)
            if not count:
                return None
            left = left[count:]
        return data

    def obituary(self) -> tuple[int, str]:
        """Return the exit status (negative: signal number) and what a dead child printed."""
        status = self._process.wait()
        size = os.fstat(self._messages.fileno()).st_size
        text = os.pread(self._messages.fileno(), size, 0).decode("utf-8", "replace")
        return status, text.strip()

    def kill(self) -> None:
        """End the process at once, if it is ours; `close` still has to reap it."""
        if self.alive():
            self._process.kill()

    def close(self) -> None:
        """End the process and reap it; in a forked copy only drop this side of the pipe."""
        process = self._process
        ours = self._owner == os.getpid()
        self.kill()
        for stream in (process.stdin, process.stdout, self._messages):
            if stream is not None:
                with contextlib.suppress(OSError):  # unsent bytes for a dead child
                    stream.close()
        if ours:
            process.wait()
        else:
            process.returncode = 0  # not ours to wait for, and no warning when it is collected
