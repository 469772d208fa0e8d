"""Options and outputs that attention and rotations do not take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flydsl import config
from flydsl.errors import ConfigError, FlyDSLError, TargetError
from flydsl_kernels.attention import (
    flash_attention,
    paged_attention_decode,
    qk_norm_rope_quant,
    rope,
)
from flydsl_kernels.attention.decoding import (
    DecodeProblem,
    LatentProblem,
    select_decode,
    select_latent,
)
from flydsl_rocdl.arch import lookup

Q, K = np.ones((1, 5, 2, 32), np.float16), np.ones((1, 9, 1, 32), np.float16)
COS, SIN = np.ones((2001, 16), np.float32), np.zeros((2001, 16), np.float32)


@pytest.fixture(autouse=True)
def _gfx942():
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


def _repeated(shape):
    return np.lib.stride_tricks.as_strided(np.zeros(shape[-1], np.float16), shape,
                                           (0,) * (len(shape) - 1) + (2,))  # fmt: skip


@pytest.mark.parametrize(("options", "code"), [
    ({"window": 3}, "U944"), ({"window": None}, "U944"), ({"window": ("a", 1)}, "U944"),
    ({"window": (1.5, 1)}, "U944"), ({"softmax_scale": "x"}, "U943"),
    ({"softmax_scale": np.ones(3)}, "U943"), ({"num_splits": 2.0}, "C943"),
    ({"num_splits": "2"}, "C943"), ({"out": _repeated(Q.shape)}, "U546"), ({"out": [1]}, "U540"),
])  # fmt: skip
def test_flash_attention(options, code):
    with pytest.raises(FlyDSLError) as caught:
        flash_attention(Q, K, K, **options)
    assert caught.value.code == f"FLY-{code}"


@pytest.mark.parametrize(("options", "code"), [
    ({"window": "a"}, "U964"), ({"partitions": 1.5}, "U964"), ({"softmax_scale": "a"}, "U943"),
    ({"out": np.zeros((1, 8, 128), np.float16)[..., ::2]}, "U965"),
    ({"out": _repeated((1, 8, 64))}, "U546"),
])  # fmt: skip
def test_decoding(options, code):
    pages = np.zeros((2, 16, 2, 64), np.float16)
    with pytest.raises(FlyDSLError) as caught:
        paged_attention_decode(
            np.zeros((1, 8, 64), np.float16), pages, pages, np.zeros((1, 2), np.int32),
            np.ones(1, np.int32), **options,
        )  # fmt: skip
    assert caught.value.code == f"FLY-{code}"


def test_rotations_of_what_is_no_array():
    for call in (
        lambda: flash_attention([1.0], K, K), lambda: rope(Q[0], [1.0], SIN),
        lambda: rope(Q[0], None, None), lambda: qk_norm_rope_quant([1.0], Q[0], COS, SIN),
    ):  # fmt: skip
        with pytest.raises(FlyDSLError, match="neither a NumPy array"):
            call()
    with pytest.raises(FlyDSLError, match="same memory"):
        rope(Q[0], COS, SIN, out=_repeated(Q[0].shape))


def test_a_rotation_to_one_token_further_on():
    memory = np.random.default_rng().standard_normal((2001, 2, 32)).astype(np.float16)
    angles = np.random.default_rng().uniform(0, 6, (2001, 16))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    expected = rope(memory[:-1].copy(), cos, sin)
    rope(memory[:-1], cos, sin, out=memory[1:])
    assert np.array_equal(memory[1:], expected)


def test_errors_of_launches_are_at_the_line_of_the_caller():
    for call in (lambda: flash_attention(Q, K, K), lambda: rope(Q[0], COS, SIN)):
        with config.scope(FLYDSL_TARGET="nonsense"), pytest.raises(TargetError) as caught:
            call()
        assert caught.value.location.file == __file__


def test_decoding_names_the_architectures_that_it_is_for():
    paged = DecodeProblem("float16", "float16", 4, 1, 64, 64, 16, "linear")
    latent = LatentProblem("float16", "float16", 16, 1, 16)
    none = replace(lookup("gfx1201"), name="gfx0000", matrix=())
    for choose in (lambda: select_decode(paged, none), lambda: select_latent(latent, none)):
        with pytest.raises(ConfigError, match="decoding has no kernel") as caught:
            choose()
        assert (caught.value.code, caught.value.value) == ("FLY-C945", "gfx0000")
