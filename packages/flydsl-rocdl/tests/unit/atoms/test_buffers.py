"""Buffer copies: widths, cache modifiers, text."""

from __future__ import annotations

import pytest

from flydsl.dialects.atoms import parse_copy
from flydsl.errors import UserValueError
from flydsl_rocdl.atoms import BufferCopy


def test_text_is_read_back() -> None:
    copy = BufferCopy(128, 2)
    assert parse_copy(str(copy)) == copy
    assert copy.copy_bits == 128
    assert copy.values(16) == 8
    assert dict(copy.state) == {"soffset": "i32"}


@pytest.mark.parametrize(
    ("bits", "modifier", "code"), [(48, 0, "FLY-U631"), (256, 0, "FLY-U631"), (32, 32, "FLY-U632")]
)
def test_what_no_instruction_does_is_refused(bits: int, modifier: int, code: str) -> None:
    with pytest.raises(UserValueError) as caught:
        BufferCopy(bits, modifier)
    assert caught.value.code == code
