from __future__ import annotations

import re
from pathlib import Path

import pytest

import flydsl
from flydsl.diagnostics import CODES, explain

SOURCE = Path(flydsl.__file__).parent
CODE = re.compile(r"FLY-[A-Z]\d{3}\b")


def used_codes():
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        if file.match("diagnostics/codes.py"):
            continue
        for code in CODE.findall(file.read_text(encoding="utf-8")):
            found.setdefault(code, set()).add(str(file.relative_to(SOURCE)))
    return found


def test_every_code_in_the_source_has_a_meaning():
    missing = {code: sorted(files) for code, files in used_codes().items() if code not in CODES}
    assert missing == {}


def test_every_meaning_belongs_to_a_code_in_the_source():
    assert sorted(CODES.keys() - used_codes().keys()) == []


def test_codes_are_well_formed_and_explained():
    for code, meaning in CODES.items():
        assert CODE.fullmatch(code)
        assert meaning
        assert "\n" not in meaning
    assert explain("FLY-U501") == CODES["FLY-U501"]
    with pytest.raises(KeyError):
        explain("FLY-X999")
