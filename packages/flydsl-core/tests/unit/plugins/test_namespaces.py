from __future__ import annotations

import pytest

PLUGIN = """
    from flydsl.plugins import hookimpl
    @hookimpl
    def flydsl_expr_namespaces(): return {"toy": "toy_package.expr"}
"""
FILES = {
    "toy_plugin.py": PLUGIN,
    "toy_package/__init__.py": "",
    "toy_package/expr/__init__.py": "from toy_package.expr.values import ANSWER",
    "toy_package/expr/values.py": "ANSWER = 42",
    "toy_package/expr/deep/__init__.py": "from ..values import ANSWER",
    "toy_package/expr/deep/leaf.py": "from . import ANSWER as LEAF",
}


@pytest.fixture
def toy(environment):
    return environment.distribution("flydsl-toy", entry_points={"toy": "toy_plugin"}, files=FILES)


@pytest.mark.parametrize(
    "first",
    [
        "import flydsl.expr as fx; fx.toy",
        "from flydsl.expr import toy",
        "import flydsl.expr.toy",
        "import flydsl.expr.toy.deep.leaf",
        "import toy_package.expr.deep.leaf",
        "from flydsl.expr.toy.deep import leaf",
    ],
)
def test_all_spellings_give_the_same_modules(toy, first):
    run = toy.run(
        f"""
        {first}
        import flydsl.expr as fx, sys
        from flydsl.expr import toy
        import flydsl.expr.toy
        import flydsl.expr.toy.deep.leaf
        import toy_package.expr.deep.leaf
        real = sys.modules["toy_package.expr"]
        assert fx.toy is toy is sys.modules["flydsl.expr.toy"] is real
        assert fx.toy.deep is sys.modules["flydsl.expr.toy.deep"] is real.deep
        assert fx.toy.deep.leaf is sys.modules["toy_package.expr.deep.leaf"]
        assert fx.toy.deep.leaf.LEAF == 42
        assert real.__name__ == real.__spec__.name == "toy_package.expr"
        assert real.deep.leaf.__spec__.name == "toy_package.expr.deep.leaf"
        import importlib
        assert importlib.reload(fx.toy.values) is real.values
        """
    )
    assert run.returncode == 0, run.stderr


def test_importing_expr_loads_no_plugin_and_not_pluggy(toy):
    run = toy.run(
        """
        import sys, flydsl.expr
        heavy = {"pluggy", "importlib.metadata", "toy_plugin", "toy_package", "flydsl.compat"}
        assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
        hasattr(flydsl.expr, "__wrapped__"), hasattr(flydsl.expr, "_private")
        assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
        """
    )
    assert run.returncode == 0, run.stderr


def test_missing_plugin_says_what_to_install(environment):
    run = environment.run(
        """
        import flydsl.expr as fx
        for attempt in (lambda: fx.nvvm, lambda: __import__("flydsl.expr.nvvm.ops")):
            try:
                attempt()
            except (AttributeError, ModuleNotFoundError) as error:
                print(type(error).__name__, str(error).replace(chr(10), " "))
        try:
            from flydsl.expr import nvvm
        except ImportError as error:
            print(type(error).__name__)
        assert not hasattr(fx, "nvvm")
        """
    )
    assert run.returncode == 0, run.stderr
    attribute, module, form = run.stdout.splitlines()
    assert attribute.startswith("UserAttributeError")
    assert module.startswith("ModuleNotFoundError")
    assert "pip install flydsl-nvvm" in attribute
    assert "pip install flydsl-nvvm" in module
    assert form in {"ImportError", "ModuleNotFoundError"}


def test_failed_and_disabled_plugins_say_so(environment):
    environment.distribution("flydsl-bad", entry_points={"bad": "bad"}, bad="import no_such_thing")
    script = """
        import flydsl.expr as fx
        try:
            fx.bad
        except AttributeError as error:
            print(error)
    """
    assert "no_such_thing" in environment.run(script).stdout
    off = environment.run(script, FLYDSL_PLUGINS_DISABLE="bad,rocdl,emu")
    assert "FLYDSL_PLUGINS_DISABLE" in off.stdout


def test_typos_in_attributes_and_submodules(toy):
    run = toy.run(
        """
        import flydsl.expr as fx
        try:
            fx.toi
        except AttributeError as error:
            print(error)
        for name in ("flydsl.expr.toy.nothing", "flydsl.expr.nothing", "flydsl.nothing"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                assert error.name == name, error.name
                print(error)
        """
    )
    assert run.returncode == 0, run.stderr
    assert "did you mean toy" in run.stdout
    assert "FLY-U508" in run.stdout
    assert "toy_package.expr.nothing" in run.stdout


def test_errors_inside_a_namespace_module_are_not_disguised(environment):
    environment.distribution(
        "flydsl-toy",
        entry_points={"toy": "toy_plugin"},
        files=FILES | {"toy_package/expr/values.py": "import something_missing"},
    )
    run = environment.run("import flydsl.expr as fx; fx.toy")
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'something_missing'"


def test_finder_is_installed_once_and_first(environment):
    run = environment.run(
        """
        import sys, flydsl
        from flydsl.plugins import namespaces
        namespaces.install()
        mine = [f for f in sys.meta_path if type(f).__module__ == namespaces.__name__]
        assert len(mine) == 1 and sys.meta_path[0] is mine[0]
        """
    )
    assert run.returncode == 0, run.stderr
