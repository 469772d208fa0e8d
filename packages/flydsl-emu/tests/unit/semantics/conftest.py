"""Which opcodes a test exercises.

A test declares them: a parameter called ``name`` that is a registered mnemonic, or
``@pytest.mark.opcodes("v_a v_b")``, where ``{parameter}`` is replaced by a parameter of the test.
A fixture checks that the test truly executes each of them at the bench; the option
``--list-opcodes=FILE`` writes the declarations of all collected tests, for the completeness test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flydsl_emu.decode import Instruction
from flydsl_emu.jit_tier import JitTier
from flydsl_emu.jit_tier.host_code import CodeCache
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.replay import Recorder
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.testing import InstructionBench

_ALL = 1 << 30


@pytest.fixture(scope="session", autouse=True)
def replayed(request: pytest.FixtureRequest, code_cache: Path) -> Iterator[None]:
    """Execute on the JIT tier what tests execute on the numpy tier: bits must agree.

    One form of each mnemonic in the normal run, all of them with ``--all-forms``.
    """
    forms = _ALL if request.config.getoption("--all-forms") else 1
    recorder = Recorder()
    with recorder.recording():
        yield
    if JitTier.available():
        library = Library(CodeCache(code_cache), 0)
        differences = recorder.differences(library, forms)
        assert not differences, "\n".join(differences[:40])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--list-opcodes", default="", help="write the opcodes of all tests to a file")
    parser.addoption("--all-forms", action="store_true", help="replay every form on the JIT tier")


def declared(item: pytest.Item) -> set[str]:
    """The opcodes that a test says it exercises."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    names = {
        word.format(**parameters)
        for mark in item.iter_markers("opcodes")
        for text in mark.args
        for word in text.split()
    }
    name = parameters.get("name")
    if isinstance(name, str) and find(name) is not None:
        names.add(name)
    return names


def pytest_collection_finish(session: pytest.Session) -> None:
    target = session.config.getoption("--list-opcodes", default="")
    if target:
        table: dict[str, list[str]] = {}
        for item in session.items:
            if item.get_closest_marker("skip") is None:
                for name in declared(item):
                    table.setdefault(name, []).append(item.nodeid)
        Path(target).write_text(json.dumps(table))


@pytest.fixture(autouse=True)
def exercised(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[set[str]]:
    """The opcodes that the test has executed so far; in the end all that it declares."""
    names: set[str] = set()
    plain = InstructionBench.execute

    def execute(self: InstructionBench, instruction: Instruction, *args: Any, **given: Any) -> Any:
        names.add(instruction.name)
        return plain(self, instruction, *args, **given)

    monkeypatch.setattr(InstructionBench, "execute", execute)
    yield names
    missing = declared(request.node) - names
    assert not missing, f"declared but not executed: {', '.join(sorted(missing))}"
