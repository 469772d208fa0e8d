"""Tests of what counts of a program run with what memory says of objects, and without."""

from __future__ import annotations

import pytest

from flydsl import words

WATCHING = {"test_changing_values", "test_contents", "test_dependencies", "test_recall"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of watches in both ways."""
    if metafunc.module.__name__.rpartition(".")[2] in WATCHING:
        metafunc.fixturenames.append("places_only")
        metafunc.parametrize("places_only", [False, True], ids=["words", "places"], indirect=True)


@pytest.fixture
def places_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at every place, as with an interpreter that does not number its dictionaries."""
    if request.param:
        monkeypatch.setattr(words, "layout", lambda: None)
