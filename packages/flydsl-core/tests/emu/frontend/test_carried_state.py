"""What run-time `if` and loops carry, against plain Python; what they cannot carry is refused."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import NamedTuple

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.errors import UserError

X = (np.arange(64, dtype=np.int32) * 7919) % 23 - 7
OUT = np.zeros(64, dtype=np.int32)


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Mutable:
    count: object
    inner: object = None

    def bump(self, by):
        self.count = self.count + by


@dataclasses.dataclass(frozen=True)
class Frozen:
    low: object
    high: object


@dataclasses.dataclass(slots=True)
class Slotted:
    left: object
    right: object


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlotted:
    a: object
    b: object


class Plain:
    def __init__(self):
        self.total = 0
        self.log = [0, 0]

    def add(self, v):
        self.total = self.total + v
        if v > 3:
            self.log[1] += 1
        else:
            self.log[0] += 1


class Holder:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def tuples(i, x, out):
    pair = (1, 2)
    for k in range(x[i] + 8):
        if k % 2 == 0:
            pair = (pair[1], pair[0] + k)
        else:
            a, b = pair
            pair = (a + 1, b)
    out[i] = pair[0] * 1000 + pair[1]


def named_tuples(i, x, out):
    p = Point(x[i], 0)
    while p.x > 0:
        p = Point(p.x - 2, p.y + p.x)
    if p.y > 10:
        p = p._replace(y=10)
    out[i] = p.y * 10 + p.x


def nested_containers(i, x, out):
    state = {"rows": [[0, 1], [2, 3]], "best": (0, {"k": 5})}
    for k in range(x[i] + 8):
        if k > 4:
            state["rows"][1][0] = state["rows"][1][0] + k
            state["best"] = (k, {"k": state["best"][1]["k"] + 1})
        else:
            state["rows"][0] = [state["rows"][0][1], k]
    rows = state["rows"]
    out[i] = rows[0][0] + 10 * rows[0][1] + 100 * rows[1][0] + 7 * state["best"][1]["k"]
    out[i] += state["best"][0]


def mutable_dataclass(i, x, out):
    m = Mutable(0, Mutable(100))
    for k in range(x[i] + 8):
        m.bump(k)
        if k % 3 == 0:
            m.inner.bump(-1)
    if x[i] > 4:
        m = Mutable(m.count * 2, m.inner)
    out[i] = m.count * 1000 + m.inner.count


def frozen_dataclass(i, x, out):
    f = Frozen(50, -50)
    for k in range(5):
        v = x[(i + k) % 64]
        if v < f.low:
            f = dataclasses.replace(f, low=v)
        if v > f.high:
            f = Frozen(f.low, v)
    out[i] = f.high * 100 - f.low


def slotted_dataclass(i, x, out):
    s = Slotted(0, 1)
    for k in range(x[i] + 8):
        if k % 2 == 1:
            s.left += k
        else:
            s.right = s.right + s.left
    if s.left > 9:
        s = Slotted(s.right, s.left)
    out[i] = s.left * 1000 + s.right


def frozen_slotted_dataclass(i, x, out):
    f = FrozenSlotted(1, 1)
    for _ in range(x[i] + 8):
        f = FrozenSlotted(f.b, (f.a + f.b) % 97)
    out[i] = f.a * 100 + f.b


def slotted_object(i, x, out):
    h = Holder(3)
    if x[i] > 2:
        h.value = x[i]
    out[i] = h.value


def objects_with_methods(i, x, out):
    p = Plain()
    for k in range(x[i] + 8):
        p.add(k)
    out[i] = p.total * 100 + p.log[0] * 10 + p.log[1]


def namespaces_in_namespaces(i, x, out):
    n = types.SimpleNamespace(a=types.SimpleNamespace(b=[1, 2]), c=0)
    if x[i] % 2 == 0:
        n.a.b[1] = x[i]
        n.c = n.c + 1
    elif x[i] > 5:
        n.a = types.SimpleNamespace(b=[7, 8])
    out[i] = n.a.b[0] * 100 + n.a.b[1] * 10 + n.c


def replaced_in_one_arm_and_changed_in_the_other(i, x, out):
    m = Mutable(1, [2, 3])
    h = Holder([4])
    d = {"a": (5, [6])}
    if x[i] % 3 == 0:
        m.bump(10)
        m.inner[0] = x[i]
        h.value[0] = 7
        d["a"][1][0] = x[i]
    elif x[i] % 3 == 1:
        m = Mutable(x[i], [8, 9])
        h = Holder([x[i]])
        d = {"a": (x[i], [3])}
    else:
        m.inner = [x[i], 1]
        d["a"] = (1, [x[i]])
    out[i] = m.count * 10000 + m.inner[0] * 100 + h.value[0] * 7 + d["a"][0] * 3 + d["a"][1][0]


def replaced_and_changed_in_a_loop(i, x, out):
    m = Mutable(1, [2, 3])
    for k in range(x[i] + 8):
        if k % 2 == 0:
            m = Mutable(m.count + k, [m.inner[1], k])
        else:
            m.bump(1)
            m.inner[1] = m.inner[0] + 1
    out[i] = m.count * 10000 + m.inner[0] * 100 + m.inner[1]


def aliases_of_one_list(i, x, out):
    a = [0, 0]
    b = a
    if x[i] > 0:
        b[0] = 5
    for k in range(2):
        a[1] = a[1] + k + b[0]
    out[i] = a[0] * 10 + b[1]


def helper(box, v):
    if v > 3:
        box[0] = box[0] + v
        return True
    return False


def helpers_that_change_their_arguments(i, x, out):
    box = [1]
    hits = 0
    for k in range(6):
        if helper(box, x[(i + k) % 64]):
            hits = hits + 1
    out[i] = box[0] * 10 + hits


def closures(i, x, out):
    total = 0

    def note(v):
        nonlocal total
        if v > 0:
            total = total + v

    for k in range(4):
        note(x[(i + k) % 64])
    out[i] = total


def ordered_and_default_dicts(i, x, out):
    d = collections.OrderedDict(a=1, b=2)
    e = collections.defaultdict(int, {"n": 0})
    for k in range(x[i] + 8):
        d["a"] = d["b"] + k
        e["n"] += 1
    out[i] = d["a"] * 100 + e["n"]


def unchanged_python_objects(i, x, out):
    names = ["p", "q"]
    table = {"p": 3, "q": 4}
    r = 0
    for k in range(x[i] + 8):
        for name in names:
            r = r + table[name] * k
    out[i] = r


def iterators_of_one_region(i, x, out):
    r = 0
    if x[i] > 0:
        rows = iter([5, 6, 7])
        r = next(rows) + next(rows)
        for a, b in zip([1, 2], [3, 4], strict=True):
            r = r + a * b
    out[i] = r


BODIES = [
    value
    for value in list(globals().values())
    if isinstance(value, types.FunctionType)
    and value.__module__ == __name__
    and value.__code__.co_varnames[:3] == ("i", "x", "out")
]


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_agrees_with_python(both, body):
    both(body, [X, OUT])


@pytest.mark.parametrize("target_name", ["gfx1201"])
def test_agrees_on_warps_of_32_lanes(both, target_name):
    from flydsl import config

    with config.scope(FLYDSL_TARGET=target_name):
        for body in (nested_containers, objects_with_methods, closures):
            both(body, [X, OUT])


def test_vectors_pointers_and_register_tensors(device):
    def body(i, x, y):
        v = fx.Vector([x[i], x[i]])
        fragment = fx.make_rmem_tensor(2, fx.Float32)
        fragment.fill(0.0)
        place = x.iter + i
        pair = (v, [place])
        for k in range(4):
            if k % 2 == 0:
                pair = (pair[0] * 2.0, [pair[1][0] + 1])
            else:
                fragment.store(fragment.load() + pair[0])
        y[i] = fragment[0] + pair[1][0].load()

    x = np.arange(80, dtype=np.float32)
    y = np.zeros(64, np.float32)
    device(body, [x, y])
    i = np.arange(64)
    np.testing.assert_array_equal(y, x[i] * 2 + x[i] * 4 + x[i + 2])


TABLE = [1, 2, 3]
COUNTS = np.zeros(3, np.int64)
QUEUE = collections.deque([1, 2])
RAW = bytearray(b"abc")


class Settings:
    mode = 1


def grows(i, x, out):
    seen = [0]
    if x[i] > 0:
        seen.append(1)  # refused
    out[i] = len(seen)


def grows_in_a_loop(i, x, out):
    seen = []
    for k in range(x[i]):
        seen.append(k)  # refused
    out[i] = len(seen)


def shrinks(i, x, out):
    seen = [1, 2]
    if x[i] > 0:
        seen.pop()  # refused
    out[i] = len(seen)


def new_key(i, x, out):
    d = {"a": 1}
    if x[i] > 0:
        d["b"] = 2  # refused
    out[i] = d.get("b", 0)


def lost_key(i, x, out):
    d = {"a": 1, "b": 2}
    if x[i] > 0:
        del d["b"]  # refused
    out[i] = d.get("b", 0)


def grown_set(i, x, out):
    s = {1}
    if x[i] > 0:
        s.add(2)  # refused
    out[i] = len(s)


def two_types(i, x, out):
    v = 1
    if x[i] > 0:
        v = 2.5  # refused
    else:
        v = "text"
    out[i] = v


def two_lengths(i, x, out):
    v = (1, 2)
    if x[i] > 0:
        v = (1, 2, 3)  # refused
    out[i] = v[0]


def none_or_number(i, x, out):
    v = None
    if x[i] > 0:
        v = 1  # refused
    out[i] = v


def two_strings(i, x, out):
    v = "a"
    if x[i] > 0:
        v = "b"  # refused
    out[i] = len(v)


def advances_an_iterator(i, x, out):
    rows = iter([1, 2, 3])
    v = 0
    if x[i] > 0:
        v = next(rows)  # refused
    out[i] = v + next(rows)


def advances_a_zip(i, x, out):
    rows = zip([1, 2, 3], [4, 5, 6], strict=True)
    v = 0
    for _ in range(x[i]):
        a, b = next(rows)  # refused
        v = v + a + b
    out[i] = v


def advances_a_generator(i, x, out):
    rows = (k * k for k in [1, 2, 3])
    v = 0
    if x[i] > 0:
        v = next(rows)  # refused
    out[i] = v + next(rows)


def changes_an_array(i, x, out):
    if x[i] > 0:
        COUNTS[1] = 5  # refused
    out[i] = int(COUNTS[1])


def changes_a_deque(i, x, out):
    if x[i] > 0:
        QUEUE.rotate()  # refused
    out[i] = QUEUE[0]


def changes_bytes(i, x, out):
    if x[i] > 0:
        RAW[0] = 7  # refused
    out[i] = RAW[0]


def changes_a_class(i, x, out):
    if x[i] > 0:
        Settings.mode = 2  # refused
    out[i] = Settings.mode


def assigns_a_global(i, x, out):
    global TABLE
    if x[i] > 0:
        TABLE = [4, 5, 6]  # refused
    out[i] = TABLE[0]


REFUSED = {
    grows: "FLY-U214",
    grows_in_a_loop: "FLY-U214",
    shrinks: "FLY-U214",
    new_key: "FLY-U21[234]",
    lost_key: "FLY-U21[234]",
    grown_set: "FLY-U214",
    two_types: "FLY-U212",
    two_lengths: "FLY-U214",
    none_or_number: "FLY-U212",
    two_strings: "FLY-U212",
    advances_an_iterator: "FLY-U289",
    advances_a_zip: "FLY-U289",
    advances_a_generator: "FLY-U289",
    changes_an_array: "FLY-U289",
    changes_a_deque: "FLY-U289",
    changes_bytes: "FLY-U289",
    changes_a_class: "FLY-U289",
    assigns_a_global: "FLY-U218",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda f: f.__name__)
def test_what_cannot_be_carried_is_refused(device, body):
    with pytest.raises(UserError, match=REFUSED[body]) as caught:
        device(body, [X.copy(), OUT.copy()])
    assert "test_carried_state.py" in str(caught.value)
    # Nothing of the attempt stays.
    assert COUNTS.tolist() == [0, 0, 0]
    assert list(QUEUE) == [1, 2]
    assert bytes(RAW) == b"abc"
    assert Settings.mode == 1
    assert TABLE == [1, 2, 3]
