"""Struct and union types: layout, construction, equality, mistakes."""

# Type checkers do not know the field types and constructors that the decorator makes.
# mypy: disable-error-code="valid-type,call-arg"

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Optional

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.errors import UserError
from flydsl.expr.storage import field_places, size_and_align


@fx.struct
class Mixed:
    a: fx.Int8
    b: fx.Float32
    c: fx.Int16


@fx.struct
class Pair(fx.Struct):
    x: fx.Float32
    y: fx.Float32 = 0.5

    def total(self):
        return self.x + self.y

    @property
    def swapped(self):
        return Pair(self.y, self.x)


@fx.struct
class Sized:
    n: fx.Constexpr[int]
    pair: Mixed
    v: fx.Float32x4
    h: fx.Array[fx.Float16, 6]


PAIR_OF_INTS = fx.struct["head" : fx.Int32, "payload" : fx.Align[fx.Int32x4, 16]]
NUMBERED = fx.struct[fx.Int32, fx.Int64]
EITHER = fx.union["six" : fx.Array[fx.Int8, 6], "word" : fx.Align[fx.Int32, 16]]

SIZES = [
    (Mixed, 12, 4),
    (Sized, 40, 4),
    (fx.union["a" : fx.Array[fx.Int8, 3], "b" : fx.Float64], 8, 8),
    (fx.Array[fx.Float16, 6], 12, 2),
    (fx.Array[fx.Float16, 6, 16], 12, 16),
    (fx.Align[Mixed, 16], 16, 16),
    (NUMBERED, 16, 8),
    (fx.Empty, 0, 1),
    (fx.Float4E2M1FNx8, 4, 1),
    (fx.Float32x4, 16, 4),
    (fx.Pointer[fx.Float32, fx.AddressSpace.Global], 8, 8),
    (fx.Pointer[fx.Float32, fx.AddressSpace.Shared], 4, 4),
    (fx.Array[Mixed, 4], 48, 4),
    (fx.struct["a" : fx.Int32, "b" : fx.Int32], 8, 4),
    (PAIR_OF_INTS, 32, 16),
    (fx.struct["h" : fx.Int32, "p" : fx.struct[fx.Int32, fx.Int32], "t" : fx.Int32], 16, 4),
    (fx.struct["a" : fx.Array[fx.Float32, 32], "b" : fx.Array[fx.Float32, 32]], 256, 4),
    (EITHER, 16, 16),
    (fx.struct["h" : fx.Int32, "u" : fx.union["b" : fx.Array[fx.Int8, 256]]], 260, 4),
    (fx.struct["n" : fx.Constexpr[int], "a" : fx.Int32], 4, 4),
]


@pytest.mark.parametrize(("kind", "size", "alignment"), SIZES, ids=lambda v: str(v)[:30])
def test_sizes_and_alignments(kind, size, alignment):
    assert size_and_align(kind) == (size, alignment)


def test_offsets():
    assert [(f.name, at) for f, at in field_places(PAIR_OF_INTS)] == [("head", 0), ("payload", 16)]
    assert [(f.name, at) for f, at in field_places(Sized)] == [("pair", 0), ("v", 12), ("h", 28)]
    assert [at for _, at in field_places(EITHER)] == [0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_layouts_are_those_of_c(seed):
    """NumPy's aligned records lie as C's do."""
    rng = np.random.default_rng(seed)
    scalars = {"i1": fx.Int8, "i2": fx.Int16, "f4": fx.Float32, "u8": fx.Uint64, "f8": fx.Float64}

    def one(depth):
        if depth and rng.random() < 0.3:
            return record(depth - 1)
        code = str(rng.choice(list(scalars)))
        if rng.random() < 0.3:
            count = int(rng.integers(1, 5))
            return np.dtype((code, count)), fx.Array[scalars[code], count]
        return np.dtype(code), scalars[code]

    def record(depth):
        parts = [one(depth) for _ in range(int(rng.integers(1, 6)))]
        numpy = np.dtype([(f"f{i}", part[0]) for i, part in enumerate(parts)], align=True)
        return numpy, fx.struct[tuple(slice(f"f{i}", part[1]) for i, part in enumerate(parts))]

    numpy, ours = record(2)
    assert size_and_align(ours) == (numpy.itemsize, numpy.alignment)
    assert [at for _, at in field_places(ours)] == [numpy.fields[n][1] for n in numpy.names]


def test_values():
    p = Pair(1)
    assert p == Pair(x=1.0, y=0.5)
    assert p != Pair(1, 2)
    assert hash(p) == hash(Pair(1.0, 0.5))
    assert p.total().value == 1.5
    assert p.swapped == Pair(0.5, 1)
    assert p.replace(y=3).y.value == 3.0
    assert repr(p) == "Pair(x=Float32(1.0), y=Float32(0.5))"
    assert isinstance(p.x, fx.Float32)
    assert fx.struct["p":Pair](p=(1, 2)).p == Pair(1, 2)
    assert NUMBERED(1, _1=2)._1.value == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.x = 2
    with pytest.raises(AttributeError):
        p.z  # noqa: B018


GLOBAL = fx.Pointer[fx.Float32, fx.AddressSpace.Global]


@fx.struct
class Optionals:
    a: fx.Tensor
    bias: fx.Tensor | None = None
    pair: Optional[Pair] = None  # noqa: UP045 - as older programs write it
    count: fx.Int32 | None = None
    p: GLOBAL | None = None
    v: None | fx.Float32x4 = None  # noqa: RUF036
    q: GLOBAL = None


def test_optional_fields():
    empty = Optionals("a tensor")
    assert [f.optional for f in Optionals.fields] == [False] + [True] * 6
    assert [f.kind for f in Optionals.fields[:4]] == [fx.Tensor, fx.Tensor, Pair, fx.Int32]
    assert (empty.bias, empty.pair, empty.count, empty.p, empty.v, empty.q) == (None,) * 6
    full = empty.replace(bias="another", pair=(1, 2), count=3)
    assert (full.bias, full.pair, full.count.value) == ("another", Pair(1, 2), 3)
    assert full != empty
    assert full.replace(bias=None, pair=None, count=None) == empty
    assert hash(full.replace(bias=None, pair=None, count=None)) == hash(empty)
    with pytest.raises(UserError, match=r"a: Tensor, bias: Tensor \| None, pair: Pair \| None"):
        Optionals()
    # Pointers have a form in memory, and need not be declared so.
    assert size_and_align(fx.struct["p":GLOBAL]) == (8, 8)
    other = fx.struct["a" : fx.Tensor | None]
    assert other._made_of != fx.struct["a" : fx.Tensor]._made_of


def test_specialised_types():
    four = Sized["n":4]
    assert repr(four) == "Sized[n=4]"
    assert size_and_align(four) == (40, 4)
    assert four.base is Sized
    with pytest.raises(UserError, match="FLY-U287"):
        Sized["v":4]


def local():
    Word = fx.Int16

    @fx.struct
    class Local:
        word: Word  # text, evaluated where the class is

    return Local


def test_annotations_of_a_function_scope():
    assert local().fields[0].kind is fx.Int16


def annotated(name, kind):
    return type("Bad", (), {"__annotations__": {name: kind}, "__module__": __name__})


MISTAKES = [
    (Pair, "FLY-U288", TypeError),
    (lambda: Pair(1, 2, 3), "FLY-U288", TypeError),
    (lambda: Pair(1, x=2), "FLY-U288", TypeError),
    (lambda: Pair(1, z=2), "FLY-U288", TypeError),
    (lambda: Pair("text"), "FLY-U288", TypeError),
    (lambda: Pair(fx.Int32(3)), "FLY-U288", TypeError),
    (lambda: Mixed(1.5, 0, 0), "FLY-U288", TypeError),
    (lambda: Mixed(300, 0, 0), "FLY-U202", ValueError),
    (lambda: EITHER(1), "FLY-U288", TypeError),
    (lambda: fx.struct(annotated("_x", fx.Int32)), "FLY-U287", ValueError),
    (lambda: fx.struct(annotated("replace", fx.Int32)), "FLY-U287", ValueError),
    (lambda: fx.struct(annotated("x", int)), "FLY-U287", TypeError),
    (lambda: fx.union(annotated("x", fx.Tensor)), "FLY-U287", TypeError),
    (lambda: fx.struct(annotated("x", "no_such_name")), "FLY-U287", TypeError),
    (lambda: fx.struct(3), "FLY-U287", TypeError),
    (lambda: fx.struct(annotated("x", fx.Tensor | fx.Int32)), "FLY-U287", TypeError),
    (lambda: fx.struct(annotated("x", fx.Stream | None)), "FLY-U287", TypeError),
    (lambda: fx.struct(annotated("x", None)), "FLY-U287", TypeError),
    (lambda: fx.union(annotated("x", fx.Int32 | None)), "FLY-U287", TypeError),
    (lambda: Pair(None), "FLY-U288", TypeError),
    (lambda: Optionals(None, count="text"), "FLY-U288", TypeError),
    (lambda: size_and_align(Optionals), "FLY-U257", TypeError),
    (lambda: size_and_align(fx.Array[Optionals, 2]), "FLY-U257", TypeError),
    (lambda: fx.struct["a" : fx.Int32, "a" : fx.Int8], "FLY-U287", TypeError),
    (lambda: size_and_align(fx.struct["a" : fx.Boolean]), "FLY-U257", TypeError),
    (lambda: fx.Align[Mixed, 2], "FLY-U257", ValueError),
    (lambda: fx.Align[Mixed, 12], "FLY-U257", ValueError),
]


@pytest.mark.parametrize(("use", "code", "python"), MISTAKES)
def test_mistakes(use, code, python):
    with pytest.raises(UserError, match=code) as caught:
        use()
    assert isinstance(caught.value, python)


@fx.struct
class Kept:
    x: fx.Tensor
    bias: fx.Tensor | None
    n: fx.Constexpr[int] = 3


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
@pytest.mark.parametrize("kind", [Kept, Kept["n":4]])
def test_structs_are_copied_and_pickled(again, kind):
    given = {} if kind.fixed else {"n": 4}
    made = kind(np.arange(3), None, **given)
    found = again(made)
    assert found is not made
    assert type(found).base is Kept
    assert found.bias is None
    assert found.n == 4
    assert found.x.tolist() == [0, 1, 2]
    assert (found.x is made.x) == (again is copy.copy)
    assert again(Pair(1.0)) == Pair(1.0)
