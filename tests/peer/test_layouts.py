"""Random layout expressions, ours and another project's: each disagreement falls under a rule.

The rules (see docs/layout-differences.md):

* form: the same function, written otherwise (strides of extent 1, tuples of one, unmerged modes);
* wrong: the other result breaks the operation's definition, which brute force shows;
* padding: both are right for every element of the layout and differ beyond it;
* aborts, refuses: the other process ends or raises; ours is right by brute force, or refuses too;
* does not nest: ours refuses a block whose strides do not nest, which a product needs not cover;
* rounds up: ours refuses to widen elements that do not make whole new ones, or overlap;
* wide: a product of run-time extents has 64 bits;
* further: a right inverse of ours keeps more modes that are provably next;
* unknown: ours refuses what only run-time values can decide.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import flydsl.layout as fl
from flydsl.errors import FlyDSLError
from flydsl.testing.brute_force import flat, layout_value, layout_values

pytestmark = pytest.mark.peer

_SPACE: dict[str, Any] = {name: getattr(fl, name) for name in fl.__all__} | {
    "L": fl.make_layout,
    "S": fl.Swizzle,
    "m": fl.Dyn(32),
    "n": fl.Dyn(32),
    "k": fl.Dyn(64),
}
Results = Callable[[Iterable[str]], list[tuple[str, str]]]
Check = Callable[[fl.Layout], bool]


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, and what tells whether a layout is a right result of it."""

    text: str
    holds: Check | None = None
    nests: bool = True
    rounds_up: bool = False


def ours(text: str) -> tuple[str, str]:
    try:
        return "text", fl.to_text(eval(text, dict(_SPACE)))
    except FlyDSLError as error:
        return "error", str(error)


# Random static layouts


def _shape(draw: random.Random, depth: int = 2) -> Any:
    def mode(levels: int) -> Any:
        if levels and draw.random() < 0.25:
            return tuple(mode(levels - 1) for _ in range(draw.choice([1, 2, 2, 3])))
        return draw.choice([1, 2, 2, 3, 4, 4, 5, 6, 8])

    modes = tuple(mode(depth - 1) for _ in range(draw.choice([1, 1, 2, 2, 3])))
    return modes[0] if len(modes) == 1 and draw.random() < 0.7 else modes


def _like(shape: Any, leaves: Iterator[int]) -> Any:
    return tuple(_like(s, leaves) for s in shape) if isinstance(shape, tuple) else next(leaves)


def _layout(draw: random.Random, limit: int = 64) -> fl.Layout:
    shape = _shape(draw)
    while math.prod(flat(shape)) > limit:
        shape = _shape(draw)
    extents = flat(shape)
    if draw.random() < 0.6:
        strides, step = [0] * len(extents), 1
        for i in draw.sample(range(len(extents)), len(extents)):
            step *= draw.choice([1, 1, 1, 2])
            strides[i] = step
            step *= extents[i]
    else:
        strides = [draw.choice([0, 1, 1, 2, 2, 3, 4, 6, 8, 12, 16]) for _ in extents]
    return fl.make_layout(shape, _like(shape, iter(strides)))


def _text(x: Any) -> str:
    if isinstance(x, fl.Layout):
        return f"L({x.shape!r},{x.stride!r})".replace(" ", "")
    return repr(x).replace(" ", "")


# What makes a result right


def _same(expected: list[int]) -> Check:
    return lambda out: layout_values(out) == expected


def _composed(a: fl.Layout, b: fl.Layout) -> Check:
    inside = [v < fl.size(a) for v in layout_values(b)]
    expected = [layout_value(a, v) for v in layout_values(b)]

    def check(out: fl.Layout) -> bool:
        got = layout_values(out)
        return len(got) == len(expected) and all(
            g == e for g, e, known in zip(got, expected, inside, strict=True) if known
        )

    return check


def _complements(a: fl.Layout, total: int) -> Check:
    own = sorted(set(layout_values(a)))

    def check(out: fl.Layout) -> bool:
        rest = layout_values(out)
        sums = [x + y for x in own for y in rest]
        covered = set(range(total)) <= set(sums)
        return covered and len(sums) == len(set(sums)) and rest == sorted(set(rest))

    return check


def _right_inverse(a: fl.Layout) -> Check:
    return lambda out: [layout_value(a, v) for v in layout_values(out)] == list(range(fl.size(out)))


def _left_inverse(a: fl.Layout) -> Check:
    own = layout_values(a)

    modes = zip(flat(a.shape), flat(a.stride), strict=True)
    injective = len(set(own)) == math.prod(extent for extent, stride in modes if stride)

    def check(out: fl.Layout) -> bool:
        if len(set(own)) == len(own):
            return [layout_value(out, v) for v in own] == list(range(len(own)))
        # Modes of stride 0 aside, a layout that repeats values has no left inverse.
        return injective and [layout_value(a, layout_value(out, v)) for v in own] == own

    return check


def _divided(a: fl.Layout, tile: fl.Layout) -> Check:
    total = fl.size(a)
    try:
        rest = layout_values(fl.complement(tile, total))
    except FlyDSLError:
        # No complement: then at least every element must be in a tile.
        return lambda out: set(layout_values(a)) <= set(layout_values(out))
    where = [t + r for r in rest for t in layout_values(tile)]

    def check(out: fl.Layout) -> bool:
        got = layout_values(out)
        return len(got) == len(where) and all(
            g == layout_value(a, at) for g, at in zip(got, where, strict=True) if at < total
        )

    return check


def _multiplied(a: fl.Layout, b: fl.Layout, in_order: bool) -> Check:
    own = layout_values(a)
    try:
        room = fl.complement(a, fl.size(a) * fl.cosize(b))
    except FlyDSLError:
        # No complement: then at least no two copies may meet.
        count = len(set(own)) * len(set(layout_values(b)))
        return lambda out: len(set(layout_values(out))) == count
    expected = [layout_value(room, t) + v for t in layout_values(b) for v in own]
    if in_order:
        return _same(expected)
    return lambda out: sorted(layout_values(out)) == sorted(expected)


def _tiled(a: fl.Layout, tile: list[int], logical: bool) -> Check:
    """Check a divide by sizes per mode: the elements within the layout, in the result's order."""
    modes = list(a.modes())
    inside = [(i, list(range(n))) for i, n in enumerate(tile)]
    steps = [(i, list(range(0, fl.size(modes[i]), n))) for i, n in enumerate(tile)]
    others = [(i, list(range(fl.size(m)))) for i, m in enumerate(modes) if i >= len(tile)]
    if logical:
        axes = [axis for pair in zip(inside, steps, strict=True) for axis in pair]
    else:
        axes = inside + steps
    axes += others
    expected: list[int | None] = []
    for reverse in itertools.product(*(places for _, places in reversed(axes))):
        at = [0] * len(modes)
        for (mode, _), place in zip(axes, reversed(reverse), strict=True):
            at[mode] += place
        within = all(p < fl.size(m) for p, m in zip(at, modes, strict=True))
        value = sum(layout_value(m, p) for p, m in zip(at, modes, strict=True))
        expected.append(value if within else None)

    def check(out: fl.Layout) -> bool:
        got = layout_values(out)
        pairs = zip(got, expected, strict=False)
        return len(got) == len(expected) and all(e is None or g == e for g, e in pairs)

    return check


def _composed_by_mode(a: fl.Layout, tile: list[int]) -> Check:
    modes = list(a.modes())
    sizes = [*tile, *(fl.size(m) for m in modes[len(tile) :])]
    if any(n > fl.size(m) for n, m in zip(sizes, modes, strict=True)):
        return lambda out: 0 not in flat(out.shape)
    expected = [0]
    for mode, n in zip(modes, sizes, strict=True):
        expected = [v + layout_value(mode, i) for i in range(n) for v in expected]
    return _same(expected)


def _like_layout(a: fl.Layout) -> Check:
    modes = zip(flat(a.shape), flat(a.stride), strict=True)
    count = math.prod(extent for extent, stride in modes if stride)
    return lambda out: len(set(layout_values(out))) == count


def _recast(a: fl.Layout, old: int, new: int) -> Check:
    if old < new:
        expected = {v * old // new for v in layout_values(a)}
    else:
        expected = {v * old // new + i for v in layout_values(a) for i in range(old // new)}
    return lambda out: set(layout_values(out)) == expected


def _uneven(a: fl.Layout, ratio: int) -> bool:
    """Return whether some wider elements would be partial, or made of repeated ones."""
    modes = zip(flat(a.shape), flat(a.stride), strict=True)
    partial = any(0 < stride < ratio and extent * stride % ratio for extent, stride in modes)
    return partial or len(set(layout_values(a))) < fl.size(a)


def _nests(a: fl.Layout) -> bool:
    reach = 1
    spans = zip(flat(a.stride), flat(a.shape), strict=True)
    for stride, extent in sorted(s for s in spans if s[1] > 1 and s[0]):
        if stride % reach:
            return False
        reach = stride * extent
    return True


# Random expressions


_KINDS = (
    "coalesce right_inverse left_inverse size cosize complement composition divide divide product "
    "product recast crd2idx idx2crd modes tile ordered like swizzled"
).split()


def _static_case(draw: random.Random) -> Case:
    a, b = _layout(draw), _layout(draw, 16)
    one, two = _text(a), _text(b)
    kind = draw.choice(_KINDS)
    match kind:
        case "coalesce":
            return Case(f"coalesce({one})", _same(layout_values(a)))
        case "right_inverse":
            return Case(f"right_inverse({one})", _right_inverse(a))
        case "left_inverse":
            return Case(f"left_inverse({one})", _left_inverse(a))
        case "size" | "cosize":
            return Case(f"{kind}({one})")
        case "complement":
            total = draw.choice([24, 48, 64])
            return Case(f"complement({one},{total})", _complements(a, total))
        case "composition":
            return Case(f"composition({one},{two})", _composed(a, b))
        case "divide":
            name = draw.choice(["logical", "zipped", "tiled", "flat"])
            return Case(f"{name}_divide({one},{two})", _divided(a, b))
        case "product":
            name = draw.choice(["logical", "zipped", "tiled", "flat", "blocked", "raked"])
            check = _multiplied(a, b, name not in ("blocked", "raked"))
            return Case(f"{name}_product({one},{two})", check, nests=_nests(a))
        case "recast":
            old, new = draw.choice([(8, 16), (16, 8), (16, 32), (32, 16), (8, 32), (32, 8)])
            uneven = old < new and _uneven(a, new // old)
            check = _recast(a, old, new)
            return Case(f"recast_layout({one},{old},{new})", check, rounds_up=uneven)
        case "crd2idx":
            return Case(f"crd2idx({draw.randrange(fl.size(a))},{one})")
        case "idx2crd":
            return Case(f"idx2crd({draw.randrange(fl.cosize(a))},{one})")
    return _structural_case(draw, a, kind)


def _structural_case(draw: random.Random, a: fl.Layout, kind: str) -> Case:
    one = _text(a)
    if kind == "ordered":
        order = tuple(draw.sample(range(a.rank), a.rank)) if isinstance(a.shape, tuple) else 0
        return Case(f"make_ordered_layout({_text(a.shape)},{_text(order)})")
    if kind == "like":
        if draw.random() < 0.5:
            return Case(f"make_layout_like({one})", _like_layout(a))
        return Case(f"make_fragment_layout_like({one})")
    if kind == "tile":
        tile = [draw.choice([1, 2, 2, 3, 4]) for _ in range(draw.randint(1, a.rank))]
        name = draw.choice(["logical_divide", "zipped_divide", "tiled_divide", "composition"])
        check = _composed_by_mode(a, tile)
        if name != "composition":
            check = _tiled(a, tile, name == "logical_divide")
        return Case(f"{name}({one},make_tile({','.join(map(str, tile))}))", check)
    if kind == "swizzled":
        text, check = f"make_composed_layout(S(2,0,3),{one})", _tiled(a, [2] * a.rank, False)
        return Case(f"zipped_divide({text},make_tile({','.join(['2'] * a.rank)}))", check)
    if a.rank < 2:
        return Case(f"append({one},L(2,8))")
    if draw.random() < 0.4:
        chosen = [draw.randrange(a.rank) for _ in range(draw.randint(1, 3))]
        return Case(f"select({one},{_text(chosen)})")
    keep = draw.sample([True, False] + [draw.random() < 0.5 for _ in range(a.rank - 2)], a.rank)
    fixed = tuple(
        None if k else draw.randrange(fl.size(m)) for k, m in zip(keep, a.modes(), strict=True)
    )
    return Case(f"{draw.choice(['slice', 'dice'])}({one},{_text(fixed)})")


def _run_time_case(draw: random.Random) -> str:
    extent = draw.choice(["m", "8", "4", "12"])
    stride = draw.choice(["n", "k", "1", "8", "16"])
    shape, steps = f"({extent},8)", draw.choice([f"({stride},1)", "(8,1)", f"(1,{stride})"])
    layout = f"L({shape},{steps})"
    tile = draw.choice(["(4,2)", "(2,8)", "(4,4)"])
    return draw.choice(
        [
            f"size({layout})",
            f"crd2idx((m,2),{layout})",
            f"crd2idx((1,n),{layout})",
            f"idx2crd(m,L((4,8),{draw.choice(['(8,1)', '(1,4)'])}))",
            f"logical_divide({layout},{tile})",
            f"zipped_divide({layout},{tile})",
            f"flat_divide({layout},{tile})",
            f"composition({layout},make_tile(4,{draw.choice(['2', '8', 'None'])}))",
            f"coalesce({layout})",
            f"slice({layout},(None,{draw.choice(['3', 'm'])}))",
            f"make_ordered_layout(({extent},8),{draw.choice(['(0,1)', '(1,0)'])})",
            f"complement(L(4,1),{draw.choice(['m', '64'])})",
            f"int_tuple_mul((m,4),({draw.choice(['2', 'n'])},n))",
            f"int_tuple_add((m,4),(8,{draw.choice(['2', 'n'])}))",
            f"ceil_div(({extent},8),(4,2))",
            f"select({layout},[1,0])",
            f"right_inverse(L(({extent},8),(8,1)))",
            f"logical_product(L({extent},1),L(4,1))",
        ]
    )


# Rules


def explained(case: Case, peer: tuple[str, str], own: tuple[str, str]) -> str:
    """Return the rule of a static case; an empty text if there is none."""
    if peer == own:
        return "same"
    mine, other = (_parsed(answer) for answer in (own, peer))
    if isinstance(mine, fl.Layout) and case.holds is not None and not case.holds(mine):
        return ""
    right = isinstance(other, fl.Layout) and 0 not in flat(other.shape)
    right = right and (case.holds is None or case.holds(other))
    if peer[0] != "text":
        return "refuses" if own[0] == "error" else f"{peer[0]}s"
    if own[0] == "error":
        if isinstance(other, fl.Layout) and not right:
            return "wrong"
        if not case.nests:
            return "does not nest"
        return "rounds up" if case.rounds_up else ""
    if isinstance(mine, fl.Layout) and isinstance(other, fl.Layout):
        if layout_values(mine) == layout_values(other):
            return "form"
        return "wrong" if not right else "padding" if case.holds is not None else ""
    return ""


def _parsed(answer: tuple[str, str]) -> Any:
    """Return the result; of a swizzled layout, the layout inside."""
    found = fl.parse(answer[1]) if answer[0] == "text" else None
    return found.outer if isinstance(found, fl.ComposedLayout) else found


def _bare(text: str) -> str:
    """Return text without widths of run-time leaves."""
    return re.sub(r"\{i64\}|i64 ", "", text)


def explained_at_run_time(text: str, peer: tuple[str, str], own: tuple[str, str]) -> str:
    """Return the rule of a case with run-time integers."""
    if peer == own:
        return "same"
    if own[0] == "error":
        return "unknown" if "run time" in own[1] or "not known" in own[1] else ""
    if peer[0] != "text":
        return f"{peer[0]}s"
    if text.startswith("right_inverse"):
        return "further" if len(own[1]) > len(peer[1]) else ""
    return "wide" if _bare(peer[1]) == _bare(own[1]) else ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_static_layouts(peer_results: Results, seed: int) -> None:
    draw = random.Random(seed)
    cases = [_static_case(draw) for _ in range(200)]
    answers = peer_results(case.text for case in cases)
    rules: Counter[str] = Counter()
    for case, answer in zip(cases, answers, strict=True):
        own = ours(case.text)
        rule = explained(case, answer, own)
        assert rule, f"{case.text}\npeer: {answer}\nours: {own}"
        rules[rule] += 1
    assert rules["same"] + rules["form"] > len(cases) // 2, rules


@pytest.mark.timeout(600)
def test_run_time_integers(peer_results: Results) -> None:
    draw = random.Random(0)
    texts = sorted({_run_time_case(draw) for _ in range(400)})
    rules: Counter[str] = Counter()
    for text, answer in zip(texts, peer_results(texts), strict=True):
        own = ours(text)
        rule = explained_at_run_time(text, answer, own)
        assert rule, f"{text}\npeer: {answer}\nours: {own}"
        rules[rule] += 1
    assert rules["same"] > len(texts) // 3, rules
