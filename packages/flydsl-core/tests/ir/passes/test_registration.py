"""The core announces its passes through the same hook as plugins do."""

from __future__ import annotations

from flydsl import plugins
from flydsl.passes import PASSES
from flydsl.plugins.manager import load_dotted, plugin_manager
from flydsl.targets import neutral_stages


def test_every_pass_is_announced_and_loads() -> None:
    with plugins.isolated():
        announced = plugin_manager().announced.passes
        for name, where in PASSES.items():
            assert announced[name] == where
            assert callable(load_dotted(where))


def test_the_neutral_stages_are_the_passes_in_order() -> None:
    names = [stage.name for stage in neutral_stages()]
    assert names == list(PASSES)[: len(names)]
