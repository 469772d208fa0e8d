"""The other project's package, evaluated by its own interpreter in another process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

Answer: TypeAlias = tuple[str, str]


class Peer:
    """Evaluates expressions; one that ends the process is answered with ``("abort", "")``."""

    def __init__(self, python: str) -> None:
        self._command = [python, str(Path(__file__).with_name("peer_layouts.py"))]
        self._process: subprocess.Popen[str] | None = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                # The other package has the same name as ours.
                env={**os.environ, "PYTHONPATH": ""},
            )
        return self._process

    def evaluate(self, texts: Iterable[str]) -> list[Answer]:
        """Return (kind, text) per expression: text, error or abort."""
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Answer:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(text) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            return "abort", ""
        kind, shown = json.loads(line)
        return kind, shown

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="session")
def peer_python() -> str:
    """The interpreter of the environment that holds the other package (see ``nox -s peer``)."""
    found = os.environ.get("FLYDSL_PEER_PYTHON")
    if not found:
        pytest.skip("FLYDSL_PEER_PYTHON names no interpreter; nox -s peer makes one")
    return found


@pytest.fixture(scope="session")
def peer_results(peer_python: str) -> Iterator[Callable[[Iterable[str]], list[Answer]]]:
    """`Peer.evaluate`."""
    peer = Peer(peer_python)
    kind, shown = peer.evaluate(["make_layout((4, 8), (8, 1))"])[0]
    assert (kind, shown) == ("text", "(4,8):(8,1)")
    yield peer.evaluate
    peer.close()
