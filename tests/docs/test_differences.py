"""Every row of ``docs/differences.md`` has a test, here or beside the code that it is about."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config, frontend
from flydsl import layout as fl
from flydsl.errors import FlyDSLError, UserError
from flydsl.plugins.payloads import ArgSpec

ROOT = Path(__file__).resolve().parents[2]
CORE, ROCDL = "packages/flydsl-core/tests/", "packages/flydsl-rocdl/tests/"
FAULTS = CORE + "emu/test_known_faults.py"
LAUNCHES = CORE + "emu/test_known_faults_of_launches.py"
CONTROL = CORE + "emu/frontend/test_control_flow.py"
NUMERICS = ROCDL + "emu/numerics/"
HERE = "tests/docs/test_differences.py"

ROWS = {
    "static shared arrays of narrow elements": (
        CORE + "emu/expr/test_structs.py",
        "test_static_arrays_are_aligned_for_vectors",
    ),
    "`fx.coop` block operations": (
        CORE + "emu/ext/test_coop.py",
        "test_every_form_on_integers",
    ),
    "`//` and `%` of signed integers": (FAULTS, "test_B14_floor_division"),
    "integers passed to a launcher": (LAUNCHES, "test_integers_that_do_not_fit"),
    "floats passed as bfloat16": (
        CORE + "unit/compiler/test_scalars.py",
        "test_bfloat16_rounds_to_nearest_even",
    ),
    "constants converted to narrow floats": (
        NUMERICS + "test_known_faults.py",
        "test_constants_are_rounded_to_narrow_types",
    ),
    "`uint8` and other unsigned tensors": (
        NUMERICS + "test_known_faults.py",
        "test_unsigned_tensors_stay_unsigned",
    ),
    "conversions to and from 8-, 6- and 4-bit floats": (
        NUMERICS + "test_conversions.py",
        "test_every_pair_on_many_patterns",
    ),
    "`bitcast` to another width": (
        NUMERICS + "test_known_faults.py",
        "test_a_bitcast_that_changes_the_width_is_refused_while_tracing",
    ),
    "static integers of 2^31 and more in layouts": (HERE, "test_wide_layouts"),
    "atomics without a scope": (HERE, "test_the_scope_of_atomics"),
    "`return` inside an `if` on a run-time value": (FAULTS, "test_B4_return"),
    "`for … else`": (CONTROL, "test_agrees_with_python"),
    "`a and b`, `a or b` on run-time values": (FAULTS, "test_B11_a_guarded_load"),
    "`range` with a negative step": (CONTROL, "test_agrees_with_python"),
    "integer as a condition": (HERE, "test_an_integer_as_a_condition"),
    "invalid divisions, compositions, indices": (
        CORE + "unit/layout/test_bad_input.py",
        "test_only_user_errors_escape",
    ),
    "swizzle parameters": (HERE, "test_swizzles_are_checked"),
    "idx2crd with a stride of zero": (HERE, "test_a_coordinate_of_a_broadcast_layout"),
    "one integer for a tensor of several modes in memory (`t[i]`)": (
        CORE + "emu/tiled/test_indexing.py",
        "test_coordinates_that_do_not_fit_are_refused",
    ),
    "`make_buffer_tensor(t)` of a tensor past 4 GiB": (
        ROCDL + "emu/test_large_buffers.py",
        "test_",
    ),
    "an integer coordinate of a layout without memory (`layout(-1)`, `idx2crd(1000, shape)`)": (
        HERE,
        "test_layouts_are_functions_of_any_integer",
    ),
    "shifts by the width or more": (
        CORE + "emu/expr/test_shifts.py",
        "test_shifts_by_the_width_or_more",
    ),
    "a constant index past the extent, or negative": (
        CORE + "emu/tiled/test_indexing.py",
        "test_coordinates_that_do_not_fit_are_refused",
    ),
    "a tiled copy whose threads and values leave holes or overlap, atoms of a tiled MMA with one "
    "number": (HERE, "test_holes_and_overlaps"),
    "a constant thread number beyond a tiled operation": (
        CORE + "emu/tiled/test_gemm.py",
        "test_properties_and_refusals",
    ),
    "mode 0 of a copy with several instructions' values": (HERE, "test_a_long_mode_0"),
    "extents of a predicate": (
        CORE + "emu/tiled/test_copies.py",
        "test_shapes_that_do_not_fit_are_refused",
    ),
    "maximum and minimum of unsigned numbers by an atomic copy": (
        CORE + "emu/tiled/test_atomics.py",
        "test_atomic_copies",
    ),
    "matrix operation that the architecture lacks": (
        ROCDL + "emu/matrix/test_options.py",
        "test_what_this_architecture_lacks_is_refused_at_the_users_line",
    ),
    "8-bit floats of the other flavour in a matrix operation": (
        ROCDL + "emu/matrix/test_options.py",
        "test_the_wrong_flavour_of_small_floats_is_refused",
    ),
    "8-bit operands of `MFMA_Scale` in registers": (
        ROCDL + "emu/matrix/test_products.py",
        "test_product",
    ),
    "scales of `MFMA_Scale` that are constant zero": (
        ROCDL + "emu/matrix/test_options.py",
        "test_scales_that_are_missing_constant_or_short",
    ),
    "a kernel that writes to a read-only NumPy array": (
        CORE + "emu/launch/test_read_only.py",
        "test_a_write_names_the_argument_and_the_line",
    ),
    "calling a `@flyc.jit` function again": (
        CORE + "codegen/compiler/test_driver.py",
        "test_a_launcher_computes_and_is_compiled_once",
    ),
    "block larger than the target allows, shared memory beyond its capacity": (
        HERE,
        "test_geometry_beyond_the_target",
    ),
    "literal grid of zero": (CORE + "codegen/compiler/test_driver.py", "test_impossible_geometry"),
    "unknown compile hint": (
        CORE + "unit/config/test_options.py",
        "test_unknown_hints_are_refused",
    ),
    "`flyc.compile` under `COMPILE_ONLY`": (
        CORE + "codegen/compiler/test_driver.py",
        "test_only_compiling_launches_nothing",
    ),
    "no GPU": (
        CORE + "unit/runtime/test_choice.py",
        "test_without_tensors_or_a_device_the_emulator_is_used",
    ),
    "back-end messages": (
        ROCDL + "codegen/test_backend_diagnostics.py",
        "test_back_end_failure_is_an_exception",
    ),
    "`fx.printf`": (
        CORE + "emu/output/test_printf.py",
        "test_wrong_calls_are_refused_at_the_users_line",
    ),
    "architecture unknown or not given": (
        CORE + "emu/launch/test_targets.py",
        "test_only_compiling_without_a_target_is_an_error",
    ),
    "choice of device": (CORE + "unit/runtime/test_choice.py", "test_the_tensors_decide"),
}


def test_every_row_has_a_test():
    text = (ROOT / "docs/differences.md").read_text("utf-8")
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line[:2] == "| "
    ]
    assert set(rows) - {"subject"} == set(ROWS)
    for path, name in ROWS.values():
        assert re.search(rf"^def {name}", (ROOT / path).read_text("utf-8"), re.M), (path, name)


def trace(body):
    """Return the text of the module of a kernel with one tensor of 64 ints."""

    @flyc.kernel
    def kernel(x: fx.Tensor):
        body(x)

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    return str(
        frontend.trace(launch, {"x": ArgSpec("x", '!fly.memref<i32, "global", "64:1", 16>')}).module
    )


def run(body, array, block=64):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        body(x)

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=block)

    with config.scope(FLYDSL_TARGET="gfx942"):
        launch(array)
    return array


def test_wide_layouts():
    layout = fl.Layout((2**32, 3), (1, 2**40))
    assert fl.size(layout) == 3 * 2**32
    assert fl.cosize(layout) == 2**32 + 2**41


@pytest.mark.parametrize(("scope", "native"), [({}, True), ({"syncscope": "system"}, False)])
def test_the_scope_of_atomics(scope, native, tmp_path):
    def body(x):
        fx.atomic_add(x.iter, 1.0, **scope)

    with config.scope(FLYDSL_DUMP_IR=True, FLYDSL_DUMP_DIR=tmp_path):
        x = run(body, np.zeros(64, np.float32))
    assert x[0] == 64
    assembly = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.s"))
    assert ("cmpswap" not in assembly) is native
    assert "atomic" in assembly


def test_an_integer_as_a_condition():
    def body(x):
        if x[fx.thread_idx.x]:
            x[fx.thread_idx.x] = 7

    x = np.arange(64, dtype=np.int32) % 3 - 1
    np.testing.assert_array_equal(run(body, x.copy()), np.where(x != 0, 7, 0))


@pytest.mark.parametrize("parameters", [(-1, 0, 3), (3, -1, 3), (3, 0, 2.5), (40, 40, 40)])
def test_swizzles_are_checked(parameters):
    with pytest.raises(UserError):
        fl.Swizzle(*parameters)


def test_a_coordinate_of_a_broadcast_layout():
    assert fx.idx2crd(3, fl.Layout((4, 8), (0, 1))) == (0, 3)

    def body(x):
        row, column = fx.idx2crd(fx.thread_idx.x, fl.Layout((4, 64), (0, 1)))
        x[column] = row + 5 * column

    np.testing.assert_array_equal(run(body, np.zeros(64, np.int32)), np.arange(64) * 5)


def test_holes_and_overlaps():
    def holes(x):
        atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32)
        with pytest.raises(UserError):
            fx.make_tiled_copy(atom, fl.Layout((4, 2), (4, 1)), fl.make_tile(32))
        with pytest.raises(UserError):
            fx.make_tiled_copy(atom, fl.Layout((4, 2), (1, 1)), fl.make_tile(8))

    trace(holes)


def test_a_long_mode_0():
    def body(x):
        atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32)
        values = fx.make_rmem_tensor((4, 1), fx.Int32)
        source = fx.make_view(x.iter + fx.thread_idx.x * 4, fx.make_layout((4, 1), (1, 4)))
        fx.copy(atom, source, values)
        fx.memref_store_vec(fx.memref_load_vec(values) + 1, values)
        fx.copy(atom, values, source)

    np.testing.assert_array_equal(run(body, np.arange(256, dtype=np.int32)), np.arange(256) + 1)


def test_geometry_beyond_the_target():
    def plain(x):
        x[0] = 1

    def greedy(x):
        fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1 << 20])[0] = 1

    with pytest.raises(FlyDSLError, match="1024"):
        run(plain, np.zeros(64, np.int32), block=2048)
    with pytest.raises(FlyDSLError, match="65536"):
        run(greedy, np.zeros(64, np.int32))


@pytest.mark.parametrize("index", [-129, -1, 0, 127, 128, 1000])
def test_layouts_are_functions_of_any_integer(index):
    last, first = divmod(index, 8)
    assert fl.make_layout((8, 16), (16, 1))(index) == 16 * first + last
    if index >= 0:
        assert fl.idx2crd(index, (8, 16)) == (first, last % 16)
