from __future__ import annotations

import importlib
import importlib.util

import pytest

from flydsl.compat import ALIASES, PUBLIC_PATHS, available, is_public


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_every_alias_is_public_and_its_module_exists(alias):
    assert is_public(alias)
    assert importlib.util.find_spec(ALIASES[alias]) is not None


def test_an_alias_and_what_is_below_it_are_the_same_objects(environment):
    run = environment.run(
        """
        import sys, types
        from collections import ChainMap
        import flydsl.compat
        flydsl.compat.ALIASES = {
            "flydsl.utils.words": "email", "flydsl.compiler.protocol": "json.decoder",
        }
        import flydsl.utils.words.mime.text as text, email.mime.text
        assert text is email.mime.text
        import flydsl.utils
        assert flydsl.utils.words is sys.modules["email"]
        assert flydsl.utils.__path__ == []
        assert sys.modules["email"].__spec__.name == "email"
        try:
            import flydsl.utils.words.nothing
        except ModuleNotFoundError as error:
            assert error.name == "flydsl.utils.words.nothing"
            print(error)
        """
    )
    assert run.returncode == 0, run.stderr
    assert "email.nothing" in run.stdout


def test_a_public_path_that_is_not_provided_lists_what_is(environment):
    missing = next(
        path
        for path in PUBLIC_PATHS
        if path not in ALIASES and path.startswith("flydsl.utils.")
    )
    run = environment.run(f"import {missing}")
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: No module named 'flydsl.utils'")
    assert "flydsl.plugins" in last
    assert "flydsl.expr" in last


def test_available_lists_siblings_without_private_ones():
    found = available("flydsl.config.nothing")
    assert "flydsl.config.settings" in found
    assert available("flydsl.no_such_package.x") == []
    assert not any(name.startswith("flydsl._") for name in available("flydsl.x"))
    assert not is_public("flydsl.expressions")
    assert is_public("flydsl.extension")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("flydsl.expr.typing", ["Tensor", "Int32", "Float32", "Constexpr", "Stream"]),
        ("flydsl.expr.primitive", ["make_layout", "copy_atom_call"]),
        ("flydsl.expr.derived", ["make_rmem_tensor"]),
        ("flydsl.expr.math", ["exp"]),
        ("flydsl.expr.utils.arith", ["ceildiv"]),
        ("flydsl.compiler.kernel_function", ["KernelFunction"]),
        ("flydsl.compiler.jit_function", ["JitFunction"]),
        ("flydsl.compiler.jit_argument", ["from_dlpack"]),
    ],
)
def test_names_that_kernels_import_from_aliases(path, names):
    module = importlib.import_module(path)
    assert module is importlib.import_module(ALIASES[path])
    for name in names:
        assert hasattr(module, name)
