"""What the family announces."""

from __future__ import annotations

import inspect

import flydsl_kernels
import flydsl_kernels.norm as norm
from flydsl.testing.families import check_announced, check_light_import


def test_every_public_function_is_announced_under_its_name():
    functions = {name for name in norm.__all__ if inspect.isfunction(getattr(norm, name))}
    assert check_announced("norm", norm) == functions
    assert len(functions) == 10


def test_importing_the_family_imports_no_compiler_and_no_array_library():
    check_light_import(norm)


def test_the_namespace_is_open_to_other_families():
    assert flydsl_kernels.__file__ is None
