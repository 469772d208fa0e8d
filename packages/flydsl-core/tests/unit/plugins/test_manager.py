from __future__ import annotations

import types

import pytest

from flydsl.errors import CompilerBug, TargetError
from flydsl.plugins import hookimpl, hookspecs, isolated, plugin_manager
from flydsl.plugins.manager import ANNOUNCING, load_dotted
from flydsl.plugins.payloads import KernelEntry, RuntimeInfo, TargetInfo


def plugin(name, **values):
    """Make a plugin module whose hooks, which take no arguments, return `values`."""
    module = types.ModuleType(name)
    for hook, value in values.items():
        setattr(module, hook, hookimpl(answering(value)))
    return module


def answering(value):
    def answer():
        return value

    return answer


def test_every_hook_is_specified_and_documented():
    names = {name for name in hookspecs.__all__ if name.startswith("flydsl_")}
    assert len(names) == 16
    for name in names:
        spec = getattr(hookspecs, name)
        assert spec.__doc__
        assert "return" in spec.__annotations__
    assert set(ANNOUNCING) < names


def test_announcements_are_merged_and_keep_their_owner():
    first = plugin(
        "first",
        flydsl_targets=[TargetInfo("a1", "a")],
        flydsl_passes={"a-lower": "first:run"},
        flydsl_kernels=[KernelEntry("sum", "reduce", "first:sum")],
    )
    second = plugin(
        "second",
        flydsl_targets=[TargetInfo("b1", "b", distribution="elsewhere")],
        flydsl_expr_namespaces={"b": "second.expr"},
        flydsl_device_runtimes=[RuntimeInfo("r", "second:make", ("bin",), ("cpu",))],
        flydsl_kernels=[KernelEntry("sum", "norm", "second:sum")],
    )
    with isolated(first, second) as manager:
        announced = manager.announced
        assert list(announced.targets) == ["a1", "b1"]
        assert announced.targets["b1"].distribution == "elsewhere"
        assert announced.passes["a-lower"] == "first:run"
        assert dict(announced.namespaces) == {"b": "second.expr"}
        assert announced.runtimes["r"].factory == "second:make"
        assert list(announced.kernels) == ["reduce.sum", "norm.sum"]
        assert announced.owners["targets", "b1"].name == "second"
        assert plugin_manager() is manager
    assert plugin_manager() is not manager


@pytest.mark.parametrize(
    ("hook", "value", "word"),
    [
        ("flydsl_targets", [TargetInfo("same", "a")], "target 'same'"),
        ("flydsl_expr_namespaces", {"same": "m"}, "namespace 'same'"),
        ("flydsl_passes", {"same": "m:f"}, "pass 'same'"),
        ("flydsl_device_runtimes", [RuntimeInfo("same", "m:f", (), ())], "runtime 'same'"),
    ],
)
def test_a_name_claimed_twice_names_both_owners(hook, value, word):
    with (
        isolated(plugin("one", **{hook: value}), plugin("two", **{hook: value})) as manager,
        pytest.raises(TargetError) as caught,
    ):
        _ = manager.announced
    message = str(caught.value)
    assert word in message
    assert "'one'" in message
    assert "'two'" in message


@pytest.mark.parametrize(
    "value", [["not a target"], "text", [TargetInfo("", "a")], {"a1": "not a target"}]
)
def test_malformed_announcements_name_their_owner(value):
    with (
        isolated(plugin("one", flydsl_targets=value)) as manager,
        pytest.raises(TargetError, match="'one'") as caught,
    ):
        _ = manager.announced
    assert caught.value.code == "FLY-T505"


def test_unknown_hooks_are_errors_that_suggest_the_name():
    with (
        pytest.raises(TargetError, match="flydsl_target'") as caught,
        isolated(plugin("typo", flydsl_target=[])),
    ):
        pass
    assert "flydsl_targets" in str(caught.value)
    assert "'typo'" in str(caught.value)


def test_hooks_with_wrong_arguments_are_errors():
    wrong = types.ModuleType("wrong")
    wrong.flydsl_parse_target = hookimpl(lambda words: words)
    with pytest.raises(TargetError, match="'wrong'") as caught, isolated(wrong):
        pass
    assert caught.value.code == "FLY-T503"


def test_announcing_hooks_cannot_be_wrapped():
    def generator():
        return (yield)

    wrapping = types.ModuleType("wrapping")
    wrapping.flydsl_targets = hookimpl(wrapper=True)(generator)
    with pytest.raises(TargetError, match="wraps flydsl_targets"), isolated(wrapping):
        pass


def test_the_same_plugin_twice_is_an_error():
    once = plugin("once", flydsl_targets=[])
    with pytest.raises(TargetError, match="'once'") as caught, isolated(once, once):
        pass
    assert caught.value.code == "FLY-T502"


def test_listeners_and_caches_belong_to_the_set_of_plugins():
    seen = []
    listener = types.ModuleType("listener")

    @hookimpl
    def flydsl_compile_event(event):
        seen.append(event)

    listener.flydsl_compile_event = flydsl_compile_event
    with isolated() as quiet:
        assert not quiet.has_listeners("flydsl_compile_event")
        quiet.cache("x")["key"] = 1
        assert quiet.cache("x") == {"key": 1}
    with isolated(listener) as heard:
        assert heard.has_listeners("flydsl_compile_event")
        heard.hook.flydsl_compile_event(event="event")
        assert heard.cache("x") == {}
    assert seen == ["event"]


def test_dotted_names():
    assert load_dotted("os.path:join") is __import__("os").path.join
    with pytest.raises(CompilerBug, match="no_such_module"):
        load_dotted("no_such_module:run", "pass")
    with pytest.raises(CompilerBug, match="nothing_here"):
        load_dotted("os:nothing_here")


LISTING = """
from flydsl.plugins import plugin_manager
for record in plugin_manager(strict=False).records:
    print(record.name, record.distribution, record.version, record.status)
"""


def test_installed_plugins_are_found_disabled_and_failing_ones_recorded(environment):
    environment.distribution(
        "flydsl-good", entry_points={"good": "good_plugin"}, good_plugin="value = 1"
    ).distribution(
        "flydsl-bad", version="2.5", entry_points={"bad": "bad_plugin"}, bad_plugin="1 / 0"
    ).distribution(
        "flydsl-exits", entry_points={"exits": "exits"}, exits="import sys; sys.exit(3)"
    ).distribution(
        "Flydsl_Off.Now", entry_points={"off": "off_plugin"}, off_plugin="raise SystemExit"
    )
    run = environment.run(LISTING, FLYDSL_PLUGINS_DISABLE="rocdl,emu,flydsl-off-now")
    assert run.returncode == 0, run.stderr
    listed = run.stdout.splitlines()
    assert "good flydsl-good 1.0 active" in listed
    assert "bad flydsl-bad 2.5 failed" in listed
    assert "exits flydsl-exits 1.0 failed" in listed
    assert "off Flydsl_Off.Now 1.0 disabled" in listed


def test_two_distributions_with_one_plugin_name_are_an_error(environment):
    environment.distribution(
        "flydsl-one", entry_points={"same": "one_plugin"}, one_plugin=""
    ).distribution("flydsl-two", entry_points={"same": "two_plugin"}, two_plugin="")
    run = environment.run("from flydsl.plugins import plugin_manager; plugin_manager()")
    assert run.returncode == 1
    assert "flydsl-one 1.0" in run.stderr
    assert "flydsl-two 1.0" in run.stderr
    assert "FLY-T504" in run.stderr
    listing = environment.run(LISTING)
    assert listing.returncode == 0, listing.stderr
    listing = environment.run(
        LISTING.replace("strict=False", ""), FLYDSL_PLUGINS_DISABLE="rocdl,emu,flydsl-two"
    )
    assert listing.returncode == 0, listing.stderr


def test_a_search_path_that_lists_a_distribution_twice_is_harmless(environment):
    environment.distribution("flydsl-good", entry_points={"good": "good_plugin"}, good_plugin="")
    run = environment.run(
        f"import sys; sys.path.append({str(environment.root)!r} + '/.')\n{LISTING}"
    )
    assert run.stdout.count("flydsl-good") == 1, run.stderr


def test_trace_reports_calls_on_stderr(environment):
    environment.distribution(
        "flydsl-good",
        entry_points={"good": "good_plugin"},
        good_plugin="""
            from flydsl.plugins import hookimpl
            from flydsl.plugins.payloads import TargetInfo, TargetSpec
            @hookimpl
            def flydsl_targets(): return [TargetInfo("seen", "good")]
            @hookimpl
            def flydsl_parse_target(text): return TargetSpec("good", "seen")
        """,
    )
    script = """
        from flydsl.targets import known_targets, parse_target
        known_targets(), parse_target("seen")
    """
    quiet = environment.run(script)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    loud = environment.run(script, FLYDSL_PLUGINS_TRACE="1")
    assert "flydsl_targets of plugin 'good' of flydsl-good 1.0" in loud.stderr
    assert "flydsl_parse_target" in loud.stderr


def test_manager_is_one_per_process_and_lazy(environment):
    # In a process of its own: the manager made under this setting would serve all later tests.
    run = environment.run(
        """
        import flydsl
        from flydsl.plugins import manager
        assert not manager.in_use()
        assert manager.plugin_manager() is manager.plugin_manager()
        assert manager.in_use()
        """
    )
    assert run.returncode == 0, run.stderr
