"""Generated closures and fronts."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from flydsl.compiler.dispatch import (
    MISS,
    MISSING,
    Live,
    argument_format,
    make_closure,
    make_front,
)
from flydsl.errors import CompilerBug
from flydsl.plugins.payloads import ArgLeaf, ArgSpec

EMPTY = object()


def spec(*leaves, guard="True", names=None, ir_type="i32"):
    return ArgSpec("key", ir_type, tuple(leaves), guard, names or {})


def closure(specs, result=0, implicit_stream=False, **options):
    seen = []

    def stub(context, data):
        seen.append((context, data))
        return result

    names = {
        "stub": stub,
        "context": 42,
        "failure": lambda status: ZeroDivisionError(f"launch {status}"),
        "current_stream": lambda: 5,
    }
    return make_closure(specs, names, implicit_stream=implicit_stream, **options), seen


def parameter(name, default=EMPTY, kind="positional", constexpr=False):
    return SimpleNamespace(name=name, default=default, kind=kind, constexpr=constexpr, EMPTY=EMPTY)


def test_arguments_are_packed_with_natural_alignment():
    specs = [spec(ArgLeaf("b", "v")), spec(ArgLeaf("q", "v")), spec(ArgLeaf("e", "v / 2"))]
    call, seen = closure(specs, implicit_stream=True)
    assert call(1, 2, 3) is None
    assert argument_format(specs, True) == "@bqeQ"
    ((context, data),) = seen
    assert context == 42
    assert data == struct.pack("<b7xqe6xQ", 1, 2, 1.5, 5)


def test_names_of_one_argument_do_not_leak_into_another():
    one = spec(ArgLeaf("i", "n + shift"), guard="(n := v) > limit", names={"limit": 0, "shift": 10})
    two = spec(ArgLeaf("i", "n + shift"), guard="(n := v) > limit", names={"limit": 5, "shift": 20})
    call, seen = closure([one, two])
    assert call(1, 6) is None
    assert seen[0][1] == struct.pack("<ii", 11, 26)
    assert call(1, 5) is MISS
    assert call(0, 6) is MISS


def test_a_value_that_does_not_fit_its_format_is_a_miss():
    call, seen = closure([spec(ArgLeaf("i", "v"))])
    assert call(2**31) is MISS
    assert call("text") is MISS
    assert seen == []


def test_a_failed_launch_raises_what_the_runtime_recorded():
    call, _ = closure([spec(ArgLeaf("i", "v"))], result=3)
    with pytest.raises(ZeroDivisionError, match="launch 3"):
        call(1)


def test_what_is_no_compile_time_value_can_be_ignored():
    static = spec(guard="v == 4", ir_type="", names={"static": 4, "accepts": lambda v: v is None})
    call, seen = closure([static, spec(ArgLeaf("i", "v"))])
    assert call(5, 1) is MISS
    assert call(None, 1) is MISS
    assert call(4, 1) is None
    call, seen = closure([static, spec(ArgLeaf("i", "v"))], check_static=False)
    assert call(4, 1) is None
    assert call(None, 1) is None
    assert call(5, 1) is MISS
    assert len(seen) == 2


def test_a_specification_that_is_no_expression_is_named():
    with pytest.raises(CompilerBug, match="no Python expression"):
        closure([spec(ArgLeaf("i", "v +"))])


class Front:
    """A front over three parameters, with a record of what ran."""

    def __init__(self, *parameters):
        self.live = Live()
        self.setting = 1
        self.slow_calls = []
        self.fast_calls = []
        self.live.settings = 1
        self.live.unchanged = lambda: self.same
        self.same = True
        self.call = make_front(parameters, self.live, lambda: self.setting, self._slow)

    def _slow(self, *arguments):
        self.slow_calls.append(arguments)
        return "slow"

    def publish(self, key, result=None):
        def fast(*arguments):
            self.fast_calls.append(arguments)
            return result

        self.live.table.setdefault(key, []).append(fast)


@pytest.fixture
def front():
    made = Front(parameter("a"), parameter("n", constexpr=True), parameter("s", 7, kind="keyword"))
    made.publish((list, 4, int))
    return made


def test_known_types_take_the_fast_path(front):
    value = []
    assert front.call(value, 4) is None
    assert front.call(n=4, a=value, s=8) is None
    assert front.fast_calls == [(value, 4, 7), (value, 4, 8)]
    assert front.slow_calls == []


@pytest.mark.parametrize(
    ("arguments", "keywords", "expected"),
    [
        (((), 4), {}, ((), {"a": (), "n": 4, "s": 7}, {})),
        (([], 5), {}, ((), {"a": [], "n": 5, "s": 7}, {})),
        (([], [4]), {}, ((), {"a": [], "n": [4], "s": 7}, {})),
        (([],), {}, ((), {"a": [], "n": MISSING, "s": 7}, {})),
        (([], 4, 9), {}, ((9,), {"a": [], "n": 4, "s": 7}, {})),
        (([], 4), {"z": 1}, ((), {"a": [], "n": 4, "s": 7}, {"z": 1})),
    ],
    ids=["type", "static", "unhashable", "missing", "surplus", "unknown"],
)
def test_everything_else_takes_the_slow_path(front, arguments, keywords, expected):
    assert front.call(*arguments, **keywords) == "slow"
    assert front.slow_calls == [expected]
    assert front.fast_calls == []


def test_closures_are_tried_in_order_until_one_fits():
    front = Front(parameter("a"))
    front.publish((int,), MISS)
    front.publish((int,))
    assert front.call(1) is None
    assert front.fast_calls == [(1,), (1,)]
    front.live.table[(int,)].pop()
    assert front.call(1) == "slow"


def test_changed_settings_or_program_take_the_slow_path(front):
    front.setting = 2
    assert front.call([], 4) == "slow"
    front.setting = 1
    front.same = False
    assert front.call([], 4) == "slow"
    front.same = True
    assert front.call([], 4) is None


def test_parameters_may_have_any_name():
    names = ("live", "watch", "slow", "table", "found", "type", "closure", "extra", "unknown")
    front = Front(*(parameter(name) for name in names))
    front.publish((int,) * len(names))
    assert front.call(*range(9)) is None
    assert front.fast_calls == [tuple(range(9))]


def test_no_parameters():
    front = Front()
    front.publish(())
    assert front.call() is None
    assert front.call(1) == "slow"
