"""Descriptions of preshuffled weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flydsl_rocdl.kernels.preshuffle import preshuffle_b
from flydsl_rocdl.kernels.weight_texts import PARTS, described_weight, weight_of


@pytest.mark.parametrize("shape", [(32, 64), (3, 32, 64)])
@pytest.mark.parametrize("arch", [None, "gfx942"])
def test_weights_are_what_was_described(shape, arch):
    weight = replace(preshuffle_b(np.ones(shape, np.float16)), arch=arch)
    text = described_weight(weight)
    assert text.count("|") == PARTS - 1
    for described in (text, f"{text}|more|of|another"):
        found = weight_of(described, weight.data)
        assert found.data is weight.data
        for name in ("layout", "dtype", "n", "k", "batch", "scales", "scale_layout", "arch"):
            assert getattr(found, name) == getattr(weight, name), name
