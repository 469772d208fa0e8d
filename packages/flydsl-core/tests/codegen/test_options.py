"""The allow-list of LLVM options, checked against the LLVM that is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flydsl.codegen import LLVM_OPTIONS, checked_options
from flydsl.errors import UserTypeError, UserValueError


def test_options_come_back_sorted() -> None:
    options = {"unroll-count": 4, "enable-misched": False}
    assert checked_options(options) == (("enable-misched", False), ("unroll-count", 4))


def test_a_target_can_allow_more() -> None:
    assert checked_options({"mine": "x"}, {"mine": "str"}) == (("mine", "x"),)


def test_unknown_name() -> None:
    with pytest.raises(UserValueError, match="no-such-option") as caught:
        checked_options({"no-such-option": 1})
    assert "unroll-count" in caught.value.allowed


@pytest.mark.parametrize("value", [True, 1.5, "4"])
def test_wrong_type(value: object) -> None:
    with pytest.raises(UserTypeError, match="of type int"):
        checked_options({"unroll-count": value})


def test_every_allowed_option_exists_in_llvm() -> None:
    code = (
        "import llvmlite.binding as llvm; llvm.initialize_all_targets();"
        "llvm.set_option('x', '--help-list-hidden')"
    )
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    names = {
        line.split()[0].lstrip("-").split("=")[0].split("<")[0]
        for line in listed.splitlines()
        if line.startswith("  --")
    }
    assert len(names) > 100
    assert [name for name in LLVM_OPTIONS if name not in names] == []
