"""Scans that other processes have made are proved, never believed."""

from __future__ import annotations

import functools
import operator
import random
import subprocess
import sys
import textwrap
import types

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.frontend import collect_dependencies
from flydsl.frontend.dependencies import collect_classes
from flydsl.frontend.recall import recall_classes, recall_function

LIBRARY = """
FACTOR = 3
NESTED = {"a": [1, (2, 3)], "b": {4, 5}}

def assist(x, by=2, *, more=1):
    return x * by * FACTOR + more
"""
PROGRAM = """
import collections, contextvars, dataclasses, enum, functools, math
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
import recall_library
from recall_library import assist

SCALE, RATIO, NAME, FLAG, NOTHING = 2, 0.5, "name", True, None
TABLE = [1, 2, {"k": (1, 2)}]
TYPES = {"f": fx.Float32, "h": fx.Float16}
CHECKED = frozenset({"p", "q"})

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    width: int = 4
    depth: tuple = (1, 2)

    @property
    def area(self):
        return self.width * SCALE

@dataclasses.dataclass
class Plan:
    row: Row = Row()
    mode: Mode = Mode.FAST

    def grid(self, n):
        return n // self.row.area

    @staticmethod
    def fixed(x):
        return x + 1

    @classmethod
    def made(cls, x):
        return cls

class Base:
    shared = 7
    _hidden = 8
    def __init__(self):
        self.held = 9

class Derived(Base):
    def use(self):
        return self.shared + self._hidden + self.held

PLAN, OBJECT = Plan(), Derived()
class Queue(collections.deque):
    pass

QUEUE = Queue([1, 2])
OBJECTS = np.array([1, [2]], dtype=object)
DEFAULTS = collections.defaultdict(int, a=1)
VARIABLE = contextvars.ContextVar("variable", default=1)
PLANS = {"a": (Plan(Row(2)), [Row(3)]), 4: {"b": Plan(mode=Mode.SLOW)}, Mode.FAST: fx.Int32}
ARRAY = np.arange(4)

@functools.cache
def memoised(x):
    return x + SCALE

halved = functools.partial(assist, by=0.5)
bound = OBJECT.use

def around(bias, inner=lambda x: x):
    def closed(x):
        return inner(x) + bias
    return closed

closed = around(5)

@flyc.jit
def helper(x):
    return closed(x) + (x if FLAG else NOTHING)

@flyc.kernel
def kernel(A: fx.Tensor):
    A[0] = helper(A[0])

def unused(x):
    return x

def picked(x):
    return x + SCALE

def root(x, options=(1, 2.0, "three"), pick=picked, *, last=[1], kind=Plan):
    total = [memoised(y) for y in TABLE] + halved(x) + bound() + len(TYPES) + math.floor(RATIO)
    total += recall_library.FACTOR + recall_library.NESTED["a"] + PLAN.grid(x) + Plan.fixed(x)
    total += PLANS["a"][0].row.width + ARRAY[0] + QUEUE[0] + OBJECTS[1][0] + DEFAULTS["a"]
    total += VARIABLE.get()
    return total + OBJECT.use() + Mode.FAST.value + kernel(x) + max(CHECKED, NAME)
"""
PROBES = [1, True, 2.0, -0.0, 0.0, "text", None, (), [], {}, len, fx.Float16, lambda x: x]


def load(source, name):
    space = types.ModuleType(name)
    sys.modules[name] = space
    exec(compile(source, f"{name}.py", "exec"), vars(space))
    return space


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The program, scanned once, and a cache in which that is written down."""
    for name in ("recall_library", "recall_program"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("flydsl.frontend.recall._FEW", 0)
    load(LIBRARY, "recall_library")
    space = load(PROGRAM, "recall_program")
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=tmp_path, FLYDSL_RUNTIME_ENABLE_CACHE=True):
        assert recall_function(space.root).entries
        yield space


def check(function):
    """Return whether a scan was recalled; it says what a new one does."""
    found = recall_function(function)
    scanned = collect_dependencies(function)
    assert found.digest == scanned.digest
    assert found.unchanged()
    assert found.portable is scanned.portable
    return not found.entries


def test_what_is_the_same_is_recalled(program):
    assert check(program.root)
    assert check(program.root)


def set_code(function, source="lambda *_: 0"):
    function.__code__ = eval(source).__code__


EDITS = {
    "scalar": lambda p: setattr(p, "SCALE", 3),
    "type": lambda p: setattr(p, "SCALE", 2.0),
    "flag": lambda p: setattr(p, "FLAG", 1),
    "sign": lambda p: setattr(p, "RATIO", -0.5),
    "text": lambda p: setattr(p, "NAME", "other"),
    "none": lambda p: setattr(p, "NOTHING", 0),
    "list": lambda p: p.TABLE.append(3),
    "inside a list": lambda p: p.TABLE[2].update(k=(1, 3)),
    "mapping": lambda p: p.TYPES.update(f=fx.Float16),
    "set": lambda p: setattr(p, "CHECKED", frozenset({"p"})),
    "code": lambda p: set_code(p.root),
    "code of a helper": lambda p: set_code(p.recall_library.assist),
    "replaced helper": lambda p: setattr(p, "assist", operator.mul),
    "replaced part": lambda p: setattr(p, "halved", functools.partial(p.assist, by=0.25)),
    "defaults": lambda p: setattr(p.root, "__defaults__", ((1, 2.5, "three"),)),
    "type of a default": lambda p: setattr(p.root, "__defaults__", ((True, 2.0, "three"),)),
    "code of a default": lambda p: set_code(p.picked),
    "no defaults": lambda p: setattr(p.root, "__defaults__", None),
    "keyword default": lambda p: p.root.__kwdefaults__["last"].append(2),
    "keyword defaults": lambda p: setattr(p.root, "__kwdefaults__", {"last": 1}),
    "closure": lambda p: setattr(p.closed.__closure__[0], "cell_contents", 6),
    "function in a closure": lambda p: setattr(
        p.closed.__closure__[1], "cell_contents", lambda x: x + 1
    ),
    "value in another module": lambda p: setattr(p.recall_library, "FACTOR", 4),
    "inside another module's value": lambda p: p.recall_library.NESTED["b"].add(6),
    "property": lambda p: setattr(p.Row, "area", property(lambda self: self)),
    "static method": lambda p: setattr(p.Plan, "fixed", staticmethod(lambda x: x)),
    "class method": lambda p: setattr(p.Plan, "made", classmethod(max)),
    "method": lambda p: setattr(p.Plan, "grid", max),
    "kind of a method": lambda p: setattr(p.Plan, "made", staticmethod(p.Plan.made.__func__)),
    "method that is read": lambda p: setattr(p.Plan, "grid", property(p.Plan.grid)),
    "code of a method": lambda p: set_code(p.Plan.grid),
    "generated method": lambda p: setattr(p.Plan, "__init__", max),
    "class attribute": lambda p: setattr(p.Base, "shared", 8),
    "hidden attribute": lambda p: setattr(p.Base, "_hidden", 9),
    "new method": lambda p: setattr(p.Derived, "shared", property(lambda self: self)),
    "attribute of an object": lambda p: setattr(p.OBJECT, "held", 10),
    "another class": lambda p: setattr(p.OBJECT, "__class__", p.Base),
    "another base": lambda p: setattr(p.Derived, "__bases__", (type("Base", (p.Base,), {}),)),
    "object": lambda p: setattr(p, "PLAN", p.Plan(p.Row(8))),
    "field of an object": lambda p: setattr(p.PLAN, "mode", p.Mode.SLOW),
    "deep field": lambda p: setattr(p.PLANS[4]["b"], "mode", p.Mode.FAST),
    "deep object": lambda p: p.PLANS["a"][1].append(p.Row(3)),
    "another kind of object": lambda p: p.PLANS["a"][1].__setitem__(0, p.Derived()),
    "deep type": lambda p: p.PLANS.update({p.Mode.FAST: fx.Int64}),
    "key": lambda p: p.PLANS.update({True: p.PLANS.pop(4)}),
    "order": lambda p: p.PLANS.update(a=p.PLANS.pop("a")),
    "tuple": lambda p: p.PLANS.update(a=list(p.PLANS["a"])),
    "array": lambda p: p.ARRAY.__setitem__(0, 5),
    "derived container": lambda p: p.QUEUE.append(3),
    "array of objects": lambda p: p.OBJECTS[1].append(3),
    "factory of defaults": lambda p: setattr(p.DEFAULTS, "default_factory", float),
    "context variable": lambda p: p.VARIABLE.set(2),
    "attribute of a member": lambda p: setattr(p.Mode.FAST, "extra", 2),
    "default of a field": lambda p: setattr(
        p.Plan.__dataclass_fields__["mode"], "default", p.Mode.SLOW
    ),
    "form of a field": lambda p: setattr(p.Plan.__dataclass_fields__["mode"], "init", False),
    "enumeration": lambda p: setattr(p.Mode.FAST, "_value_", 5),
    "memoised": lambda p: setattr(p, "memoised", functools.cache(lambda x: x)),
    "no longer memoised": lambda p: setattr(p, "memoised", p.memoised.__wrapped__),
    "bound": lambda p: setattr(p, "bound", p.Derived().use),
    "decorated": lambda p: setattr(p, "helper", flyc.jit(p.unused)),
    "no longer decorated": lambda p: setattr(p, "helper", p.helper.function),
    "code of a decorated": lambda p: set_code(p.helper.function),
    "options": lambda p: setattr(p.kernel, "known_block", (64, 1, 1)),
    "built-in": lambda p: setattr(p, "len", min),
    "comprehension's built-in": lambda p: setattr(p.recall_library, "more", 5),
    "name of a module's attribute": lambda p: setattr(p.recall_library, "halved", 5),
    "module": lambda p: setattr(p, "math", fx.math),
    "removed": lambda p: delattr(p, "NOTHING"),
    "outside": lambda p: set_code(p.helper.function, "lambda x: open(x)"),
    "internal": lambda p: setattr(p, "__flydsl_internal__", True),
}
UNUSED = {
    "unused function": lambda p: set_code(p.unused),
    "unused value": lambda p: setattr(p, "OTHER", 1),
    "positions": lambda p: setattr(p, "__doc__", "text"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_has_changed_is_scanned(program, edit):
    before = collect_dependencies(program.root).digest
    EDITS[edit](program)
    changed = collect_dependencies(program.root).digest != before
    # Where the scan counts nothing of it, it may be recalled; never the other way round.
    assert not (check(program.root) and changed)
    check(program.root)


@pytest.mark.parametrize("edit", ["kind of a method", "method that is read"])
def test_what_a_method_is_counts(program, edit):
    before = collect_dependencies(program.root).digest
    EDITS[edit](program)
    assert collect_dependencies(program.root).digest != before
    assert not check(program.root)


@pytest.mark.parametrize("edit", UNUSED)
def test_what_does_not_take_part_may_change(program, edit):
    UNUSED[edit](program)
    assert check(program.root)


@pytest.mark.parametrize("seed", range(6))
def test_random_edits(program, seed):
    rng, root = random.Random(seed), program.root
    owners = [
        program,
        program.recall_library,
        program.Plan,
        program.Row,
        program.Base,
        program.Mode,
    ]
    owners += [program.Derived, program.OBJECT, program.root, program.assist]
    names = [name for owner in owners for name in vars(owner) if name[0] != "_"]
    names += ["_hidden", "_value_", "len", "max", "__defaults__", "x", "floor"]
    for _ in range(40):
        owner, name = rng.choice(owners), rng.choice(names)
        try:
            before = getattr(owner, name)
            setattr(owner, name, rng.choice([*PROBES, before]))
        except (AttributeError, TypeError):
            continue
        check(root)
        if rng.random() < 0.7:
            setattr(owner, name, before)
            check(root)


def test_classes_of_arguments(program):
    kinds = (program.Plan, program.Derived)
    assert recall_classes(kinds).entries
    assert not recall_classes(kinds).entries
    assert recall_classes(kinds).digest == collect_classes(kinds).digest
    assert recall_classes(kinds[:1]).digest == collect_classes(kinds[:1]).digest
    before = recall_classes(kinds).digest
    program.Row.area = property(lambda self: self.width)
    after = recall_classes(kinds)
    assert after.entries
    assert after.digest == collect_classes(kinds).digest != before
    other = types.new_class("Plan", (program.Plan,))
    other.__module__, other.__qualname__ = "recall_program", "Plan"
    assert recall_classes((other,)).digest == collect_classes((other,)).digest


def test_small_programs_are_scanned_every_time(program, monkeypatch):
    monkeypatch.setattr("flydsl.frontend.recall._FEW", 20)
    assert recall_function(program.unused).entries
    assert recall_function(program.unused).entries


def test_later_changes_are_noticed(program):
    found = recall_function(program.root)
    assert not found.entries
    assert found.unchanged()
    program.recall_library.NESTED["a"].append(1)
    assert not found.unchanged()
    program.recall_library.NESTED["a"].pop()
    assert found.unchanged()
    program.closed.__closure__[0].cell_contents = 7
    assert not found.unchanged()


def test_damaged_and_foreign_recipes_are_ignored(program, tmp_path):
    recipes = list(tmp_path.glob("??/*.entry"))
    assert recipes
    for recipe in recipes:
        recipe.write_bytes(b"torn")
    assert not check(program.root)
    assert check(program.root)


def test_other_processes_recall(tmp_path):
    """Whatever the order of their sets is."""
    (tmp_path / "recall_library.py").write_text(LIBRARY)
    (tmp_path / "recall_program.py").write_text(PROGRAM)
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import recall_program
        from flydsl import config
        from flydsl.frontend.recall import recall_function
        with config.scope(
            FLYDSL_RUNTIME_CACHE_DIR={str(tmp_path / "cache")!r}, FLYDSL_RUNTIME_ENABLE_CACHE=True
        ):
            found = recall_function(recall_program.root)
        print(len(found.entries), found.digest)
    """)
    seen = []
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.append(done.stdout.split())
    assert int(seen[0][0]) > 0
    assert [entries for entries, _ in seen[1:]] == ["0", "0"]
    assert len({digest for _, digest in seen}) == 1
