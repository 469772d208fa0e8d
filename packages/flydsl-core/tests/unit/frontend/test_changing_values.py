"""Values that change while they stay where they are, and objects that change their class."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from flydsl.frontend import collect_dependencies


def module(source):
    space = types.ModuleType("user_code")
    exec(compile(source, "user_code.py", "exec"), vars(space))
    return space


@pytest.mark.parametrize(
    ("made", "changed"),
    [
        ("[1, 2]", "[0] = 3"),
        ("{1, 2}", ".add(3)"),
        ("{'a': [1]}", "['a'][0] = 3"),
        ("__import__('collections').deque([1, 2])", "[0] = 3"),
        ("__import__('collections').deque([[1]])", "[0][0] = 3"),
        ("__import__('collections').OrderedDict(a=1)", "['a'] = 3"),
        ("__import__('collections').Counter('a')", "['a'] = 3"),
        ("bytearray(b'12')", "[0] = 3"),
        ("__import__('array').array('i', [1, 2])", "[0] = 3"),
    ],
)
@pytest.mark.parametrize("checked", [0, 2])
def test_mutable_values_of_every_kind_count_by_content(made, changed, checked):
    source = f"TABLE = {made}\n\ndef outer(x):\n    return x + TABLE[0]\n"
    space = module(source)
    found = collect_dependencies(space.outer)
    assert found.portable
    assert found.digest == collect_dependencies(module(source).outer).digest
    for _ in range(checked):
        assert found.unchanged()
    exec(f"TABLE{changed}", vars(space))
    assert not found.unchanged()
    assert collect_dependencies(space.outer).digest != found.digest


CHANGING = """
import collections, contextvars, enum, functools, threading, weakref
import numpy as np

class One:
    def __init__(self):
        self.held = 1

    def read(self):
        return self.held

class Two(One):
    def read(self):
        return 2

class Child(One):
    pass

class Mode(enum.Enum):
    FAST = 1

    def __init__(self, value):
        self.extra = value

CHILD, VARIABLE, LOCAL = Child(), contextvars.ContextVar("variable", default=1), threading.local()
LOCAL.held = 1
NESTED = np.array([1, [2]], dtype=object)
DEFAULTS = collections.defaultdict(lambda: 1)

class Queue(collections.deque):
    pass

class Row(list):
    pass

class Number(int):
    pass

QUEUE, ROW, NUMBER = Queue([1]), Row([1]), Number(1)
ROW.held = NUMBER.held = 1

def bases(x):
    return CHILD.read()

def member(x):
    return Mode.FAST.extra

def variable(x):
    return VARIABLE.get()

def local(x):
    return LOCAL.held

def objects(x):
    return NESTED[1][0]

def factory(x):
    return DEFAULTS[3]

def derived(x):
    return QUEUE[0]

def row(x):
    return ROW[0] + ROW.held

def number(x):
    return NUMBER + NUMBER.held

class Order(enum.Enum):
    _A = 2
    __k = 3
    value = 4

    def hidden(self):
        return Order._Order__k.value

class Described:
    def __init__(self, k):
        self.k = k

    def __get__(self, owner, kind=None):
        return self.k

    def __set__(self, owner, value):
        pass

def scaled(self, k):
    return k

class Parts:
    x = Described(1)
    part = property(functools.partial(scaled, k=1))
    __call__ = functools.partialmethod(scaled, 1)

    @property
    def both(self):
        return 1

    @both.setter
    def both(self, value):
        self.other = 1

    @functools.cached_property
    def once(self):
        return 1

    @staticmethod
    def plain(x):
        return x

class Strange:
    def __getattr__(self, name):
        return {"known": 1}[name]

PARTS, STRANGE = Parts(), Strange()
USER, CHAIN = collections.UserDict(a=1), collections.ChainMap({"a": 1})
WEAK = weakref.ref(PARTS)

def parts(x):
    PARTS.both = PARTS.x
    return PARTS() + PARTS.part + PARTS.once + Order._A.value

def user(x):
    return USER["a"] + CHAIN["a"]

def weak(x):
    return WEAK().k

def strange(x):
    return STRANGE.known

import types
inner, deep = types.ModuleType("user_inner"), types.ModuleType("user_deep")
inner.deep, deep.SCALE = deep, 1
exec("FACTOR = 1\\ndef called(x):\\n    return x * FACTOR", vars(deep))
outer = types.ModuleType("user_outer")
outer.inner = inner
TABLE, HOLDER = {"deep": deep, "called": deep.called}, Parts()
HOLDER.held = deep.called

def modules(x):
    return outer.inner.deep.SCALE

def default(x, module=deep):
    return module.SCALE

def table(x):
    return TABLE["deep"].SCALE + TABLE["called"](x)

def holder(x):
    return HOLDER.held(x)
"""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bases", "Child.__bases__ = (Two,)"),
        ("member", "Mode.FAST.extra = 2"),
        ("variable", "VARIABLE.set(2)"),
        ("local", "LOCAL.held = 2"),
        ("objects", "NESTED[1][0] = 3"),
        ("factory", "DEFAULTS.default_factory = int"),
        ("derived", "QUEUE[0] = 2"),
        ("row", "ROW[0] = 2"),
        ("row", "ROW.held = 2"),
        ("number", "NUMBER.held = 2"),
        ("parts", "vars(Parts)['x'].k = 2"),
        ("parts", "Parts.both.fset.__code__ = (lambda self, value: None).__code__"),
        ("parts", "Parts.once.func.__code__ = (lambda self: 2).__code__"),
        ("parts", "Described.__get__ = lambda self, owner, kind=None: 2"),
        ("user", "USER['a'] = 2"),
        ("user", "CHAIN['a'] = 2"),
        ("weak", "PARTS.k = 2"),
        ("modules", "deep.SCALE = 2"),
        ("default", "deep.SCALE = 2"),
        ("table", "deep.SCALE = 2"),
        ("table", "deep.FACTOR = 2"),
        ("holder", "deep.FACTOR = 2"),
        ("strange", "Strange.__getattr__ = lambda self, name: 2"),
    ],
)
@pytest.mark.parametrize("checked", [0, 2])
def test_whatever_a_name_leads_to_is_watched(name, change, checked):
    space = module(CHANGING)
    found = collect_dependencies(getattr(space, name))
    assert found.digest == collect_dependencies(getattr(module(CHANGING), name)).digest
    for _ in range(checked):
        assert found.unchanged()
    exec(change, vars(space))
    assert not found.unchanged()
    assert collect_dependencies(getattr(space, name)).digest != found.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_A = 2", "_A = 3"),
        ("__k = 3", "__k = 4"),
        ("value = 4", "value = 5"),
        ("    _A = 2\n    __k = 3\n    value = 4", "    value = 4\n    __k = 3\n    _A = 2"),
        ("Described(1)", "Described(2)"),
        ("property(functools.partial(scaled, k=1))", "property(functools.partial(scaled, k=2))"),
        ("partialmethod(scaled, 1)", "partialmethod(scaled, 2)"),
        ("self.other = 1", "self.other = 2"),
        ("def once(self):\n        return 1", "def once(self):\n        return 2"),
        ("@both.setter", "@both.getter"),
    ],
)
def test_whatever_a_class_consists_of_counts(old, new):
    assert CHANGING.count(old) == 1
    before = collect_dependencies(module(CHANGING).parts)
    after = collect_dependencies(module(CHANGING.replace(old, new)).parts)
    assert before.digest == collect_dependencies(module(CHANGING).parts).digest
    assert before.digest != after.digest


BY_TEXT = """
import types
held = types.ModuleType("user_held")
held.SCALE, held.OTHER, held.UNUSED = 1, 2, 3

def named(x):
    return x * getattr(held, "SCALE")

def listed(x):
    return x * sum(vars(held)[name] for name in ("SCALE", "OTHER"))
"""


@pytest.mark.parametrize("name", ["named", "listed"])
def test_attributes_that_are_named_in_texts_count(name):
    space = module(BY_TEXT)
    found = collect_dependencies(getattr(space, name))
    space.held.UNUSED = 4
    assert found.unchanged()
    space.held.SCALE = 4
    assert not found.unchanged()


MATCHED = """
class Held:
    __match_args__ = ("scale",)
    def __init__(self):
        self.scale = 2

held = Held()

def by_name(x):
    match held:
        case Held(scale=scale):
            return x * scale

def by_place(x):
    match held:
        case Held(scale):
            return x * scale

def by_key(x):
    match {"a": 1}:
        case {"a": scale}:
            return x * scale
"""


def test_patterns_of_classes_are_not_compared_by_other_processes():
    """They read attributes whose names are in no code of the program."""
    space = module(MATCHED)
    found = {n: collect_dependencies(getattr(space, n)) for n in ("by_name", "by_place", "by_key")}
    assert [one.portable for one in found.values()] == [False, False, True]


META = """
class Meta(type):
    @property
    def scale(cls):
        return 2

class Held(metaclass=Meta):
    pass

def scaled(x):
    return x * Held.scale
"""


def test_metaclasses_count():
    space = module(META)
    found = collect_dependencies(space.scaled)
    assert not found.portable
    assert found.unchanged()
    space.Meta.scale = property(lambda _: 3)
    assert not found.unchanged()


OBJECT = """
class Held:
    def __init__(self):
        self.inner = [1]
    def scaled(self, x):
        return x * 2

held = Held()
around = [held]

def direct(x):
    return held.scaled(x)

def inside(x):
    return around[0].scaled(x)
"""


@pytest.mark.parametrize(("name", "checked"), [("direct", 0), ("direct", 2), ("inside", 1)])
def test_another_class_of_the_same_name_is_noticed(name, checked):
    """Reloading tools give objects the class of the new source, which is called as the old one."""
    space = module(OBJECT)
    found = collect_dependencies(getattr(space, name))
    for _ in range(checked):
        assert found.unchanged()
    space.held.__class__ = module(OBJECT.replace("x * 2", "x * 3")).Held
    assert not found.unchanged()


def test_a_module_that_is_called_as_one_of_pythons_is_the_users(tmp_path):
    """`code`, `profile` and `test` are names that users give to their files."""
    program = """
import sys
import profile
from flydsl.frontend import collect_dependencies
before = collect_dependencies(profile.scaled)
profile.FACTOR = 3
print(before.unchanged(), collect_dependencies(profile.scaled).digest == before.digest)
import code
from flydsl.frontend.eligible import is_user_module
print(is_user_module("profile"), is_user_module("code"))
"""
    (tmp_path / "profile.py").write_text("FACTOR = 2\ndef scaled(x):\n    return x * FACTOR\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{program}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    own, python = done.stdout.splitlines()
    assert (own, python) == ("False False", "True False")


APPEARING = """
import types
import appearing_part as PART

def call(x):
    return later(x)

def value(x):
    return x + LATER

def attribute(x):
    return x + PART.later

def asked(x):
    return x + getattr(PART, "later", 1)

def cells():
    def cell(x):
        return x + held

    def assign(value):
        nonlocal held
        held = value

    if PART is None:
        held = 0
    return cell, assign

cell, assign = cells()
"""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("call", "def later(x): return {}"),
        ("value", "LATER = {}"),
        ("attribute", "PART.later = {}"),
        ("asked", "PART.later = {}"),
        ("cell", "assign({})"),
    ],
)
def test_what_is_missing_counts_when_it_appears(monkeypatch, name, change):
    monkeypatch.setitem(sys.modules, "appearing_part", types.ModuleType("appearing_part"))
    space = module(APPEARING)
    missing = collect_dependencies(vars(space)[name])
    assert missing.unchanged()
    assert missing.unchanged()
    exec(change.format(2), vars(space))
    assert not missing.unchanged()
    there = collect_dependencies(vars(space)[name])
    assert there.unchanged()
    exec(change.format(3), vars(space))
    assert not there.unchanged()
    assert collect_dependencies(vars(space)[name]).digest not in (missing.digest, there.digest)


NAMELESS = """
class Base:
    factor = 1

class Held(Base):
    def __init__(self):
        self.number = 1

HELD = Held()

def outer(x):
    return x * HELD.factor + HELD.number
"""


@pytest.mark.parametrize("space", [{}, {"__name__": "builtins"}])
@pytest.mark.parametrize("change", ["HELD.number = 2", "Base.factor = 2", "Held.factor = 3"])
def test_classes_of_code_without_a_module_count(space, change):
    space = dict(space)
    exec(compile(NAMELESS, "nameless.py", "exec"), space)
    found = collect_dependencies(space["outer"])
    assert found.unchanged()
    assert found.unchanged()
    exec(change, space)
    assert not found.unchanged()
    assert collect_dependencies(space["outer"]).digest != found.digest


def test_a_module_that_answers_for_any_name_is_not_asked(monkeypatch):
    part = types.ModuleType("answering_part")
    exec("HELD = 1\ndef __getattr__(name):\n    return 1\n", vars(part))
    monkeypatch.setitem(sys.modules, "answering_part", part)
    space = module("import answering_part as P\ndef outer(x):\n    return P.HELD + P.other\n")
    found = collect_dependencies(space.outer)
    assert found.unchanged()
    part.other = 2
    assert not found.unchanged()
