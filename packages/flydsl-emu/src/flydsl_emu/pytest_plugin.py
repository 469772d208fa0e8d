"""A pytest plugin: launches of a test checked by the sanitizer.

Installed with the package. ``sanitized`` is a fixture that checks the launches of the test that
asks for it; ``pytest --flydsl-sanitize`` checks those of all tests, as ``FLYDSL_SANITIZE`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flydsl_emu.sanitizer import SanitizerReport

__all__ = ["pytest_addoption", "pytest_runtest_call", "sanitized"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--flydsl-sanitize``."""
    parser.addoption(
        "--flydsl-sanitize",
        nargs="?",
        const="all",
        default="",
        metavar="CHECKS",
        help="check the emulated launches of all tests: all, or wait,race,init,oob,barrier",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Check the launches of a test when the option asks for it."""
    checks = item.config.getoption("--flydsl-sanitize")
    if not checks:
        yield
        return
    from flydsl_emu.sanitizer import sanitize

    with sanitize(checks):
        yield


@pytest.fixture
def sanitized() -> Iterator[SanitizerReport]:
    """Check every emulated launch of the test: a finding raises `SanitizerError` at the launch.

    The value is the report, so that a test that expects findings can look at them.
    """
    from flydsl_emu.sanitizer import sanitize

    with sanitize() as report:
        yield report
