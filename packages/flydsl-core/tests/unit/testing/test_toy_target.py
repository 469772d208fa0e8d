from __future__ import annotations

import types

import pytest

from flydsl.errors import TargetError
from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import TargetInfo
from flydsl.targets import choose_target, known_targets
from flydsl.testing import toy_target


def test_it_is_the_only_and_the_chosen_target():
    with toy_target() as target:
        assert choose_target() is target
        assert [info.name for info in known_targets()] == ["toy"]
        assert target.name == "toy"


def test_further_plugins_are_registered_and_must_not_clash():
    other = types.SimpleNamespace(
        flydsl_targets=hookimpl(lambda: [TargetInfo("other", "somebody")])
    )
    with toy_target(other):
        assert [info.name for info in known_targets()] == ["other", "toy"]
    same = types.SimpleNamespace(flydsl_targets=hookimpl(lambda: [TargetInfo("toy", "somebody")]))
    with pytest.raises(TargetError, match="'toy' is claimed"), toy_target(same):
        pass
