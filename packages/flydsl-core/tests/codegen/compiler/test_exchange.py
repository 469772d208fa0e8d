"""What array libraries tell through their C functions, and what has to be found out."""

from __future__ import annotations

import ctypes
import random

import pytest

from flydsl.compiler.exchange import negation_flag

torch = pytest.importorskip("torch", reason="tensors that offer the exchange functions are torch's")


def test_the_flag_of_negated_views_is_the_one_that_torch_asks():
    offset, place, flag = negation_flag(torch)
    draw = random.Random(3)
    kinds = [torch.float32, torch.float16, torch.int64, torch.complex64]
    for _ in range(200):
        x = torch.ones(draw.randrange(1, 5), draw.randrange(1, 5), dtype=draw.choice(kinds))
        for _ in range(draw.randrange(4)):
            steps = [torch._neg_view, torch.t, torch.Tensor.detach, torch.clone, torch.conj]
            steps += [lambda x: x[:1], lambda x: x.contiguous(), torch.neg]
            x = draw.choice(steps)(x)
        structure = ctypes.c_uint64.from_address(id(x) + offset).value
        flags = ctypes.c_uint64.from_address(structure + place).value
        assert bool(flags & flag) is x.is_neg()


def test_the_flag_is_found_wherever_tensors_are():
    """Bits of addresses must not be taken for it, nor hide it."""
    draw = random.Random(11)
    others = []
    found = set()
    for _ in range(400):
        found.add(negation_flag.__wrapped__(torch))
        others += [torch.ones(draw.randrange(1, 99)) for _ in range(draw.randrange(6))]
        others += [torch._neg_view(torch.ones(3)) for _ in range(draw.randrange(3))]
        draw.shuffle(others)
        del others[200:]
    assert found == {negation_flag(torch)}
    assert None not in found


def test_an_unknown_torch_has_no_flag():
    class Unknown:
        def __getattr__(self, name):
            raise AttributeError(name)

    assert negation_flag(Unknown()) is None
