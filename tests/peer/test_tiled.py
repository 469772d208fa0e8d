"""Tiled copies, tiled MMAs, their partitions and fragments: ours and another project's are equal.

Expressions are drawn at random and evaluated while tracing a kernel here, and by the other package
there. Layouts are equal up to the strides of extents of 1, which mean nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.layout as fl
from flydsl import config

pytestmark = pytest.mark.peer

Results = Callable[[Iterable[str]], list[tuple[str, str]]]

HALF, FLOAT = "Float16", "Float32"
ATOM = "__import__('flydsl.expr', fromlist=['rocdl']).rocdl.MFMA(16, 16, 16, Float16)"
ATOM_LAYOUTS = (
    "L((2,2,1),(1,2,0))", "L((1,4,1),(0,1,0))", "L((4,1,1),(1,0,0))", "L((2,2,1),(2,1,0))",
    "L((1,1,1),(0,0,0))",
)  # fmt: skip
PERMUTATIONS = (
    "None", "(None,None,32)", "(None,L((16,2,2),(1,32,16)),None)",
    "(None,None,L((4,4,2),(1,8,4)))",
)  # fmt: skip


def shared(layout: str, element: str = HALF) -> str:
    return f"make_view(get_dyn_shared({element}),{layout})"


def copies(draw: random.Random) -> list[str]:
    """Return expressions about one tiled copy."""
    bits = draw.choice([16, 32, 64, 128])
    down, across = draw.choice([(8, 8), (32, 8), (16, 4), (4, 64), (64, 1)])
    threads = draw.choice([f"({across},1)", f"(1,{down})"])
    rows, columns = draw.choice([1, 2]), bits // 16 * draw.choice([1, 2])
    made = (
        f"make_tiled_copy_tv(make_copy_atom(UniversalCopy({bits}),Float16),"
        f"L(({down},{across}),{threads}),L(({rows},{columns}),({columns},1)))"
    )
    m, n = down * rows * draw.choice([1, 2, 4]), across * columns * draw.choice([1, 2])
    tensor = shared(f"L(({m},{n}),{draw.choice([f'({n},1)', f'(1,{m})'])})")
    return [
        f"{made}.tile_mn",
        f"{made}.layout_tv_tiled",
        f"{made}.layout_src_tv_tiled",
        f"get_layout({made}.get_slice(m).partition_S({tensor}))",
        f"get_layout({made}.get_slice(m).partition_D({tensor}))",
        f"get_layout(make_fragment_like({made}.get_slice(m).partition_S({tensor})))",
    ]


def products(draw: random.Random) -> list[str]:
    """Return expressions about one tiled MMA and the copies made for it."""
    made = (
        f"make_tiled_mma(make_mma_atom({ATOM}),{draw.choice(ATOM_LAYOUTS)},"
        f"{draw.choice(PERMUTATIONS)})"
    )
    a = shared(draw.choice(["L((128,64),(64,1))", "L((128,64),(1,128))"]))
    c = shared("L((128,128),(128,1))", FLOAT)
    copy_a = f"make_tiled_copy_A(make_copy_atom(UniversalCopy(64),Float16),{made})"
    copy_c = f"make_tiled_copy_C(make_copy_atom(UniversalCopy(32),Float32),{made})"
    return [
        f"{made}.thr_layout_vmnk",
        f"{made}.tile_size_mnk",
        f"{made}.tv_layout_A_tiled",
        f"{made}.tv_layout_C_tiled",
        f"get_layout({made}.get_slice(m).partition_A({a}))",
        f"get_layout({made}.get_slice(m).partition_B({a}))",
        f"get_layout({made}.get_slice(m).partition_C({c}))",
        f"get_layout({made}.make_fragment_A({a}))",
        f"get_layout({made}.make_fragment_C({c}))",
        f"{copy_a}.layout_tv_tiled",
        f"get_layout({copy_a}.get_slice(m).partition_S({a}))",
        f"get_layout({copy_a}.get_slice(m).retile({made}.make_fragment_A({a})))",
        f"get_layout({copy_c}.get_slice(m).retile({made}.make_fragment_C({c})))",
        f"get_layout({copy_c}.get_slice(m).partition_D({c}))",
    ]


def text(value: Any) -> str:
    """Return the canonical text of a result."""
    if isinstance(value, tuple):
        return "(" + ",".join(text(item) for item in value) + ")"
    shown = str(getattr(value, "kind", value)).replace(" ", "")
    found = re.fullmatch(r'!fly\.(?:layout|int_tuple|tile)<"(.*)">', shown)
    return found[1] if found else shown


class Evaluation:
    """Evaluates expressions while tracing."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.results: list[str] = []

    def run(self, m: Any) -> None:
        names = {name: getattr(fx, name) for name in fx.__all__}
        space = names | {"L": fx.make_layout, "m": m}
        self.results = [text(eval(expression, dict(space))) for expression in self.texts]


@flyc.kernel
def evaluate_kernel(m: fx.Int32, evaluation: fx.Constexpr[object]):  # type: ignore[no-untyped-def]
    evaluation.run.__call__(m)


@flyc.jit
def evaluate(m: fx.Int32, evaluation: fx.Constexpr[object]):  # type: ignore[no-untyped-def]
    evaluate_kernel(m, evaluation).launch(grid=1, block=64)


def plain(shown: str) -> str:
    """Return a layout's text with stride 0 for extents of 1."""
    try:
        layout = fl.parse(shown.replace(" ", ""))
    except Exception:  # noqa: BLE001 - not a layout: compared as it is
        return shown.replace(" ", "")
    if not isinstance(layout, fl.Layout):
        return str(layout)

    def zeroed(shape: Any, stride: Any) -> Any:
        if isinstance(shape, tuple):
            return tuple(zeroed(s, d) for s, d in zip(shape, stride, strict=True))
        return 0 if isinstance(shape, int) and shape == 1 else stride

    return str(fl.Layout(layout.shape, zeroed(layout.shape, layout.stride)))


@pytest.mark.parametrize("seed", range(4))
def test_partitions_and_fragments_are_equal(seed: int, peer_results: Results) -> None:
    draw = random.Random(seed)
    texts = [t for _ in range(14) for make in (copies, products) for t in make(draw)]
    evaluation = Evaluation(list(dict.fromkeys(texts)))
    with config.scope(FLYDSL_TARGET="gfx942"):
        evaluate(1, evaluation)
    theirs = peer_results(evaluation.texts)
    assert {kind for kind, _ in theirs} == {"text"}
    for expression, ours, (_, other) in zip(
        evaluation.texts, evaluation.results, theirs, strict=True
    ):
        assert plain(ours) == plain(other), expression
