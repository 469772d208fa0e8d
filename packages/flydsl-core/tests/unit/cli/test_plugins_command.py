from __future__ import annotations

import json

import pytest

COMMAND = "import sys; from flydsl.cli import main; sys.exit(main({arguments!r}))"


@pytest.fixture
def flydsl_command(environment):
    def run(*arguments, **variables):
        return environment.run(COMMAND.format(arguments=list(arguments)), **variables)

    return run


GOOD = """
from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import TargetInfo

@hookimpl
def flydsl_targets():
    return [TargetInfo("seen", "good")]

@hookimpl
def flydsl_cli_commands(subparsers):
    parser = subparsers.add_parser("greet", help="say hello")
    parser.set_defaults(run=lambda args: print("hello") or 7)
"""


def test_lists_plugins_and_what_they_announce(environment, flydsl_command):
    environment.distribution("flydsl-good", entry_points={"good": "good"}, good=GOOD)
    text = flydsl_command("plugins", FLYDSL_PLUGINS_DISABLE="rocdl,emu,ghost")
    assert text.returncode == 0, text.stderr
    assert "good  (flydsl-good 1.0)  active" in text.stdout
    assert "targets: seen" in text.stdout
    assert "'ghost', which is not installed" in text.stdout
    found = json.loads(flydsl_command("plugins", "--json").stdout)
    good = next(plugin for plugin in found["plugins"] if plugin["name"] == "good")
    assert good["targets"] == ["seen"]
    assert good["status"] == "active"
    assert found["problems"] == []


def test_a_failed_plugin_is_listed_and_sets_the_exit_code(environment, flydsl_command):
    environment.distribution("flydsl-bad", entry_points={"bad": "bad"}, bad="import gone_missing")
    run = flydsl_command("plugins")
    assert run.returncode == 1
    assert "bad  (flydsl-bad 1.0)  failed" in run.stdout
    assert "gone_missing" in run.stdout


def test_clashing_plugins_are_still_listed(environment, flydsl_command):
    environment.distribution("flydsl-good", entry_points={"good": "good"}, good=GOOD).distribution(
        "flydsl-also", entry_points={"also": "also"}, also=GOOD.replace('"greet"', '"meet"')
    )
    run = flydsl_command("plugins", "--json")
    assert run.returncode == 1
    found = json.loads(run.stdout)
    assert "flydsl-good" in found["problems"][0]
    assert "flydsl-also" in found["problems"][0]
    assert {"good", "also"} < {plugin["name"] for plugin in found["plugins"]}


def test_plugins_add_commands_and_their_exit_code_is_kept(environment, flydsl_command):
    environment.distribution("flydsl-good", entry_points={"good": "good"}, good=GOOD)
    run = flydsl_command("greet")
    assert (run.returncode, run.stdout) == (7, "hello\n")
    assert "say hello" in flydsl_command("--help").stdout


def test_a_plugin_whose_commands_fail_does_not_take_the_others_down(environment, flydsl_command):
    source = GOOD.replace('"greet"', '"plugins"')
    environment.distribution("flydsl-good", entry_points={"good": "good"}, good=source)
    run = flydsl_command("plugins")
    assert "active" in run.stdout
    assert "failed to add its commands" in run.stderr


def test_wrong_usage_and_version(flydsl_command):
    assert flydsl_command().returncode == 2
    assert flydsl_command("no-such-command").returncode == 2
    version = flydsl_command("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("flydsl ")


def test_errors_are_printed_without_a_traceback(flydsl_command):
    run = flydsl_command("plugins", FLYDSL_PLUGINS_TRACE="perhaps")
    assert run.returncode == 1
    assert "FLYDSL_PLUGINS_TRACE" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_reader_that_goes_away_is_no_crash(environment):
    script = """
        import os, sys
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader), os.close(writer)
        from flydsl.cli import main
        sys.exit(main(["plugins"]))
    """
    run = environment.run(script)
    assert run.returncode == 1
    assert run.stderr == ""
