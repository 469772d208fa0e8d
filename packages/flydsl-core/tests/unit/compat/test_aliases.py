from __future__ import annotations

import importlib
import importlib.util

import pytest

from flydsl.compat import ALIASES, LEGACY_PATHS, available, is_public
from flydsl.config import scope


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
    run = environment.run(
        """
        import flydsl.compat
        flydsl.compat.is_public = lambda name: True
        import flydsl.config.gone
        """
    )
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: No module named 'flydsl.config.gone'")
    assert "flydsl.config.settings" in last
    assert "flydsl.config.parsers" in last


def test_available_lists_siblings_without_private_ones():
    found = available("flydsl.config.nothing")
    assert "flydsl.config.settings" in found
    assert available("flydsl.no_such_package.x") == []
    assert not any(name.startswith("flydsl._") for name in available("flydsl.x"))
    assert not is_public("flydsl.expressions")
    assert is_public("flydsl.extension")


@pytest.mark.filterwarnings("ignore:.*kept for existing kernels:DeprecationWarning")
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


@pytest.mark.parametrize("path", sorted(LEGACY_PATHS))
def test_a_legacy_path_warns_where_it_is_imported(environment, path):
    run = environment.run(f"import warnings\nwarnings.simplefilter('always')\nimport {path}")
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("DeprecationWarning") == 1, run.stderr
    assert f"<string>:3: DeprecationWarning: {path}" in run.stderr
    assert LEGACY_PATHS[path] in run.stderr


def test_current_paths_do_not_warn(environment):
    paths = sorted(set(ALIASES) - set(LEGACY_PATHS) - {"flydsl._mlir.dialects"})
    run = environment.run("\n".join(f"import {path}" for path in paths))
    assert (run.returncode, run.stderr) == (0, "")


def test_settings_as_attributes():
    from flydsl.compat import environment as env

    with scope(FLYDSL_RUNTIME_ENABLE_CACHE="1", FLYDSL_DUMP_IR="1"):
        assert env.runtime.enable_cache is True
        assert env.env.debug.dump_ir is True
    with scope(FLYDSL_TARGET="gfx942"):
        assert env.compile.target == "gfx942"
    with pytest.raises(AttributeError, match="enable_cache"):
        _ = env.runtime.enable_cash


def test_every_public_path_leaves_the_names_of_fx_alone(environment):
    # Two orders: the paths first, and fx first.
    run = environment.run(
        """
        import importlib, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from flydsl.compat import PUBLIC_PATHS
        from flydsl.expr.struct import struct as first
        import flydsl.expr as fx
        before = {name: getattr(fx, name) for name in fx.__all__}
        assert fx.struct is first
        for path in PUBLIC_PATHS:
            importlib.import_module(path)
        assert all(getattr(fx, name) is value for name, value in before.items())
        assert sys.modules["flydsl.expr.struct"].Storage is not None
        """
    )
    assert run.returncode == 0, run.stderr
