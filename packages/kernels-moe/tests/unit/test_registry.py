"""What the family announces."""

from __future__ import annotations

import flydsl_kernels.moe as moe
from flydsl.testing.families import check_announced, check_light_import


def test_what_is_announced_is_public():
    assert check_announced("moe", moe)


def test_importing_the_family_imports_no_compiler_and_no_array_library():
    check_light_import(moe)
