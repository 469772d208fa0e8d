"""The operations as operators of PyTorch, and PyTorch tensors as arguments."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("flydsl_emu")

from flydsl import config  # noqa: E402
from flydsl.errors import UserValueError  # noqa: E402
from flydsl_kernels.moe import (  # noqa: E402
    Activation,
    fused_moe,
    moe_reduce,
    moe_sort,
    prepare_experts,
    topk_gating,
)
from flydsl_kernels.moe.ops import operators, part_operators  # noqa: E402
from flydsl_kernels.moe.ops.layer import FusedOptions  # noqa: E402


@pytest.fixture(autouse=True)
def target():
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


def test_operators_match_their_fakes():
    logits = torch.randn(5, 16)
    ids = torch.randint(0, 16, (5, 3), dtype=torch.int32)
    weights = torch.rand(5, 3)
    checks = "test_schema", "test_faketensor"
    options = logits, None, 3, "softmax", True, [1, 1], 1.0
    torch.library.opcheck(operators.gating_operator, options, test_utils=checks)
    given = ids, weights, 16, 8, torch.ones(16, dtype=torch.int32), None
    torch.library.opcheck(operators.sort_operator, given, test_utils=checks)
    rows = torch.randn(5, 3, 40)
    torch.library.opcheck(operators.reduce_operator, (rows, None, weights), test_utils=checks)
    found = operators.sort_operator(*given)
    order, extents = list(found), [5, 3, -1, 8]
    x = torch.randn(5, 40)
    permuted = part_operators.permute_operator(x, order, extents)
    torch.library.opcheck(part_operators.permute_operator, (x, order, extents), test_utils=checks)
    given = permuted, weights, order, extents
    torch.library.opcheck(part_operators.unpermute_operator, given, test_utils=checks)
    for form in ("int8", "fp8_block"):
        given = x, None, None, form, "float8_e4m3fnuz", False
        torch.library.opcheck(part_operators.quantise_operator, given, test_utils=checks)


def test_tensors_give_what_arrays_give():
    logits = torch.randn(9, 32, dtype=torch.bfloat16)
    weights, ids = topk_gating(logits, 4)
    plain = topk_gating(logits.float().numpy(), 4)
    assert torch.equal(weights, torch.from_numpy(plain[0]))
    assert torch.equal(ids, torch.from_numpy(plain[1]))
    order, other = moe_sort(ids, weights, 32, unit=8), moe_sort(plain[1], plain[0], 32, unit=8)
    for name in ("ids", "weights", "experts", "valid", "places"):
        assert torch.equal(getattr(order, name), torch.from_numpy(getattr(other, name)))
    rows = torch.randn(9, 4, 24, dtype=torch.bfloat16)
    expected = rows.double().sum(1)
    assert (moe_reduce(rows).double() - expected).abs().max() < 2**-7 * expected.abs().max()


@pytest.mark.parametrize("name", ["bf16", "fp8"])
def test_a_layer_is_one_operator(name):
    experts, k, channels = 4, 64, 32
    layers = []
    for n, columns, gated in ((2 * channels, k, True), (k, channels, False)):
        w, scales = torch.randn(experts, n, columns) / 8, None
        if name == "fp8":
            scales = w.abs().amax(-1) / 240
            w = (w / scales[..., None]).to(torch.float8_e4m3fnuz)
        else:
            w = w.bfloat16()
        layers.append(prepare_experts(w, format=name, gated=gated, scales=scales))
    x = torch.randn(5, k).bfloat16()
    weights, ids = topk_gating(torch.randn(5, experts), 2)
    plain = fused_moe(x, *layers, weights, ids)
    routing, smooth = (weights, ids, None), (None, None)
    options = FusedOptions(Activation())
    found = operators.fused_operator_call(x, layers, routing, smooth, options)
    assert torch.equal(found, plain)
    data = [tensor for layer in layers for tensor in operators.tensors_of(layer)]
    given = (
        x, data, *(operators.described(layer) for layer in layers), list(routing), list(smooth),
        operators.described_options(options), operators.numbers_of(options.activation),
    )  # fmt: skip
    checks = "test_schema", "test_faketensor"
    torch.library.opcheck(operators.fused_operator, given, test_utils=checks)


def test_a_compiled_layer_has_no_graph_break():
    layers = [
        prepare_experts((torch.randn(4, n, k) / 8).bfloat16(), format="bf16", gated=gated)
        for n, k, gated in ((64, 64, True), (64, 32, False))
    ]

    def layer(x, logits):
        weights, ids = topk_gating(logits, 2)
        how = Activation(limit=7.0, alpha=1.702, offset=1.0)
        return fused_moe(x, *layers, weights, ids, activation=how, unit=16) * 2

    x, logits = torch.randn(5, 64).bfloat16(), torch.randn(5, 4)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, logits), layer(x, logits))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["fp8", "fp8_block", "int8_int4", "bf16_int4", "mxfp4"])
def test_layers_of_tensors_give_what_layers_of_arrays_give(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np = pytest.importorskip("numpy")
    from moe_reference import case

    def tensor(array):
        if array is None:
            return None
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.astype(np.float32)).bfloat16()
        if array.dtype == ml_dtypes.float8_e4m3fn:
            return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
        return torch.from_numpy(array)

    random = np.random.default_rng()
    x = random.standard_normal((9, 256)).astype(ml_dtypes.bfloat16)
    one, two = case(name, "gfx950", 1, 4, 256, 256), case(name, "gfx950", 1, 4, 256, 128)
    results = []
    with config.scope(FLYDSL_TARGET="gfx950"):
        weights, ids = topk_gating(random.standard_normal((9, 4)).astype(np.float32), 2)
        for turn in (lambda array: array, tensor):
            layers = [
                prepare_experts(turn(data.w), format=name, gated=gated, scales=turn(data.w_scales))
                for data, gated in ((one, True), (two, False))
            ]
            results.append(fused_moe(turn(x), *layers, turn(weights), turn(ids)))
    assert torch.equal(tensor(results[0]), results[1])


def test_orders_and_sums_compiled_without_a_break():
    ids, weights = torch.randint(0, 8, (5, 2), dtype=torch.int32), torch.rand(5, 2)
    rows = torch.randn(5, 2, 64)

    def program(ids, weights, rows):
        order = moe_sort(ids, weights, 8, unit=16)
        return moe_reduce(rows, order.places, weights)

    compiled = torch.compile(program, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(ids, weights, rows), program(ids, weights, rows))


@pytest.mark.parametrize("name", ["logits", "bias"])
def test_choices_of_experts_have_no_gradient(name):
    given = {"logits": torch.randn(5, 8), "bias": torch.randn(8)}
    expected = topk_gating(**given, k=2)
    given[name].requires_grad_()
    out = torch.empty(5, 2), torch.empty(5, 2, dtype=torch.int32)
    for options in ({}, {"out": out}):
        with pytest.raises(UserValueError, match="no_grad") as caught:
            topk_gating(**given, k=2, **options)
        assert (caught.value.code, caught.value.value) == ("FLY-U972", name)
    with torch.no_grad():
        found = topk_gating(**given, k=2)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ["x", "topk_weights", "smooth[1]"])
def test_layers_of_experts_have_no_gradient(name):
    layers = [
        prepare_experts(torch.randn(4, n, k).bfloat16(), format="bf16", gated=gated)
        for n, k, gated in ((64, 64, True), (64, 32, False))
    ]
    tensors = {
        "x": torch.randn(5, 64).bfloat16(), "topk_weights": torch.rand(5, 2),
        "smooth[1]": torch.ones(4, 32),
    }  # fmt: skip
    tensors[name].requires_grad_()
    ids = torch.randint(0, 4, (5, 2), dtype=torch.int32)
    for out in (None, torch.empty(5, 64, dtype=torch.bfloat16)):
        with pytest.raises(UserValueError, match="no_grad") as caught:
            fused_moe(tensors["x"], *layers, tensors["topk_weights"], ids,
                      smooth=(None, tensors["smooth[1]"]), out=out)  # fmt: skip
        assert (caught.value.code, caught.value.value) == ("FLY-U972", name)
