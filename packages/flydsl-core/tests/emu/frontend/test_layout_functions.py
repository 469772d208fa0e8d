"""The layout functions of ``fx`` outside kernels, inside them, and inside on run-time integers."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.layout as fl
from flydsl.errors import UserError
from flydsl.expr import layout_functions, layout_questions, tuple_functions
from flydsl.testing.brute_force import layout_values

M, N = 12, 6

# m and n are run-time integers in the third form of each case. Results agree leaf by leaf.
CASES = """
make_int_tuple((m, (n, 3)))
make_shape(m, (n, 3))
make_stride(1, (m, 6))
make_coord(m, 2)
make_layout((m, n))
make_layout((m, n), (n, 1))
make_ordered_layout((m, 8, n), (2, 0, 1))
make_identity_layout((m, (2, n)))
make_layout_like(make_layout((m, 8), (8, 1)))
make_fragment_layout_like(make_layout(((2, 4), 8, m), ((1, 0), 16, 4)))
make_composed_layout(S, make_layout((m, 8), (8, 1)))
make_composed_layout(S, 16, make_layout((m, 8), (8, 1)))
composed_get_inner(make_composed_layout(make_layout(640), 16, make_layout((m, 8), (8, 1))))
composed_get_offset(make_composed_layout(S, m, make_layout((8, 8), (8, 1))))
composed_get_outer(make_composed_layout(S, 16, make_layout((m, 8), (8, 1))))
get_shape(make_layout((m, n)))
get_stride(make_layout((m, n), (n, 1)))
get_iter(make_view((m, n), make_identity_layout((4, 8))))
get_layout(make_view((m, n), make_identity_layout((4, n))))
size(make_layout((m, n)))
size(make_layout((m, n))[1])
cosize(make_layout((m, 8), (8, 1)))
coshape(make_layout((m, n), (E(0), E(1))))
coprofile(make_layout((m, n), (E(0), E(1))))
rank(make_layout((m, (n, 2))))
depth(make_layout((m, (n, 2))))
rank((m, n, 2))
depth((m, (n, 2)))
get(make_layout((m, (n, 2))), 1)
get((m, n), 1)
get_(make_layout((m, (n, 2))), [1, 0])
get_scalar(size(make_layout(m, 1)))
get_leaves((m, (n, 2)))
get_leaves(make_layout((m, 2), (2, 1)))
has_none((m, (None, 2)))
take(make_layout((m, n, 4)), 1, 3)
select(make_layout((m, n, 4)), [2, 0])
group(make_layout((m, n, 4)), 0, 2)
append(make_layout((m, n)), make_layout(2, 72), n=4)
prepend((m, n), 3)
slice(make_layout((m, (2, n))), (None, (1, None)))
dice(make_layout((m, (2, n))), (None, (1, None)))
coalesce(make_layout((m, (1, n)), (1, (99, m))))
coalesce(make_layout(((2, m), (1, n)), ((1, 2), (99, m))), (1, 1))
composition(make_layout((m, 8), (8, 1)), make_tile(4, 8))
complement(make_layout((4, m), (1, 8)), 128)
complement(make_layout(4, 1), m)
right_inverse(make_layout((4, m), (1, 4)))
left_inverse(make_layout((4, m), (1, 4)))
nullspace(make_layout((m, n, 4), (0, 1, 0)))
logical_divide(make_layout((m, n), (n, 1)), (4, 2))
zipped_divide(make_layout((m, n), (n, 1)), (4, None))
tiled_divide(make_layout((m, n), (n, 1)), (4, 2))
flat_divide(make_layout((m, n), (n, 1)), (5, 4))
logical_product(make_layout(m, 1), make_layout(4, 1))
zipped_product(make_layout((m, 2), (2, 1)), make_layout(4, 1))
tiled_product(make_layout(m, 1), make_layout((4, 2), (2, 1)))
flat_product(make_layout(m, 1), make_layout(4, 1))
blocked_product(make_layout((4, 2), (2, 1)), make_layout((m, 3), (3, 1)))
raked_product(make_layout((4, 2), (2, 1)), make_layout((m, 3), (3, 1)))
tile_to_shape(make_layout((4, 8), (8, 1)), (m, 32), (0, 1))
recast_layout(make_layout((m, 8), (8, 1)), 32, 16)
recast_layout(make_layout((m, 8), (8, 1)), Float16, Float32)
make_layout_tv(make_layout((4, 1)), make_layout((1, 4)))
crd2idx((m, 2), make_layout((64, n), (8, 1)))
crd2idx(m, make_layout((4, 8), (8, 1)))
crd2idx((m, 3), make_composed_layout(S, 4, make_layout((64, 8), (8, 1))))
idx2crd(m, make_layout((4, 8), (8, 1)))
idx2crd(9, make_layout((m, n), (n, 1)))
get_flat_coord(m, make_layout(((2, 2), 4)))
get_1d_coord(9, make_layout((m, n), (n, 1)))
int_tuple_add((m, 2), (3, n))
int_tuple_sub((m, 2), (3, n))
int_tuple_mul((m, 4), (2, n))
int_tuple_div((m, 40), (5, n))
int_tuple_mod((m, 40), (5, n))
int_tuple_product((m, (n, 2)))
int_tuple_product_each((m, (n, 2)))
int_tuple_product_like((m, (n, 2)), (1, 1))
shape_div((m, 8), 4)
ceil_div((m, n), (5, 4))
elem_less((m, n), (13, 7))
elem_less((m, n), (13, 6))
equal((m, n), (12, 6))
equal((m, n), (m, n, 1))
congruent((m, (n, 2)), (1, (2, 3)))
weakly_congruent((m, n), (1, (2, 3)))
is_profile_congruent((m, n), (1, (2, 3)))
is_profile_weakly_congruent((m, n), make_layout((1, (2, n))))
compatible((8, m), (8, (2, n)))
is_injective(make_layout((4, 8), (8, 1)))
is_surjective(make_layout((4, 8), (8, 2)))
is_bijective(make_layout((4, 8), (8, 1)))
max_common_layout(make_layout((m, 8), (8, 1)), make_layout((n, 8), (8, 1)))
max_common_vector(make_layout((m, 8), (8, 1)), make_layout((n, 8), (8, 1)))
""".strip().splitlines()
# Their answer is about what is known, which differs for run-time integers on purpose.
KNOWN_ONLY = ("compatible",)
# The same function in other modes: run-time neighbours are not merged.
SAME_FUNCTION = ("coalesce", "right_inverse", "left_inverse", "nullspace", "max_common_layout")

_SPACE = {name: getattr(fx, name) for name in fx.__all__} | {"S": fl.Swizzle(3, 0, 3), "E": fx.E}


def evaluated(text: str, m: object, n: object) -> object:
    return eval(text, _SPACE, {"m": m, "n": n})


def test_every_layout_function_has_a_case() -> None:
    names = {
        *layout_functions.__all__,
        *tuple_functions.__all__,
        *layout_questions.__all__,
    } - {"described"}
    missing = {name for name in names if not any(f"{name}(" in text for text in CASES)}
    assert missing == set()


def plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(plain(e) for e in value)
    return value.value if isinstance(value, fx.Boolean) else value


@pytest.mark.parametrize("text", CASES)
def test_outside_it_is_the_algebra(text: str) -> None:
    names = {name: getattr(fl, name, None) for name in fx.__all__} | {
        "S": fl.Swizzle(3, 0, 3),
        "E": fl.E,
        "make_view": fl.CoordTensor,
        "is_profile_congruent": fl.congruent,
        "is_profile_weakly_congruent": fl.weakly_congruent,
        "Float16": fx.Float16,
        "Float32": fx.Float32,
    }
    assert plain(evaluated(text, M, N)) == eval(text, names, {"m": M, "n": N})


def test_inside_a_kernel_static_integers_give_the_same_objects() -> None:
    seen = {}

    @flyc.kernel
    def kernel(x: fx.Tensor):
        for text in fx.range_constexpr(len(CASES)):
            seen[CASES[text]] = evaluated(CASES[text], M, N)

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    launch(np.zeros(4, np.int32))
    for text in CASES:
        assert plain(seen[text]) == plain(evaluated(text, M, N)), text


def leaves_of(value: object) -> list[object]:
    if isinstance(value, (bool, fx.Boolean)):
        return [fx.Int32(value) if isinstance(value, fx.Boolean) else int(value)]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves_of(item)]
    return [leaf for leaf in fx.get_leaves(value) if leaf is not None]


def test_inside_a_kernel_run_time_integers_give_the_same_values() -> None:
    counts: dict[str, int] = {}

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        at = 0
        for index in fx.range_constexpr(len(CASES)):
            found = leaves_of(evaluated(CASES[index], x[0], x[1]))
            counts[CASES[index]] = len(found)
            for k in fx.range_constexpr(len(found)):
                out[at + k] = fx.Int64(found[k])
            at += len(found)

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor):
        kernel(x, out).launch(grid=1, block=64)

    out = np.full(2048, -99, np.int64)
    launch(np.array([M, N], np.int32), out)
    got, at = {}, 0
    for text in CASES:
        got[text] = out[at : at + counts[text]].tolist()
        at += counts[text]
    for text in CASES:
        expected = [int(getattr(e, "value", e)) for e in leaves_of(evaluated(text, M, N))]
        if text.startswith(SAME_FUNCTION):
            assert values_of(got[text]) == values_of(expected), text
        elif not text.startswith(KNOWN_ONLY):
            assert got[text] == expected, text


def values_of(leaves: list[int]) -> list[int]:
    """Return the values of the layout with these extents and strides."""
    half = len(leaves) // 2
    return layout_values(fl.Layout(tuple(leaves[:half]), tuple(leaves[half:])))


@pytest.mark.parametrize(
    "text",
    [
        "make_layout((m, 'a'))",
        "make_layout((m, 2), 3)",
        "select(make_layout((m, n)), 3)",
        "get_(make_layout((m, n)), 5)",
        "composed_get_inner(make_layout((m, n)))",
        "is_injective(make_layout((m, n), (1, 3)))",
        "recast_layout(make_layout((m, n)), 'a', 16)",
        "slice(make_layout((m, n)), (1, 2))",
        "crd2idx((1, 2, 3), make_layout((m, n)))",
        "composition(make_layout((m, 8), (8, 1)), 1.5)",
    ],
)
def test_mistakes_are_user_errors_inside_and_outside(text: str) -> None:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        evaluated(text, x[0], x[1])

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    if "is_injective" not in text:
        with pytest.raises(UserError):
            evaluated(text, M, N)
    with pytest.raises(UserError):
        launch(np.zeros(4, np.int32))
