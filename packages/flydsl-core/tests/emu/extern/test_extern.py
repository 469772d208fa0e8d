"""External functions from LLVM IR and bitcode, called in kernels that run in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.compiler.extern_link import link_extern, register_extern_resolver
from flydsl.errors import TargetError, UserError
from flydsl.expr.extern import ffi
from flydsl.plugins import isolated

SOURCE = """
@table = internal addrspace(4) constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]

define float @scaled(float %x, i32 %n) {
  %f = sitofp i32 %n to float
  %y = call float @helper(float %x)
  %r = fmul float %y, %f
  ret float %r
}

define float @helper(float %x) noinline {
  %y = fadd float %x, 1.0
  ret float %y
}

define i64 @wide(i64 %a, i64 %b) {
  %r = sub i64 %a, %b
  ret i64 %r
}

define i32 @looked_up(i32 %i) {
  %p = getelementptr [4 x i32], ptr addrspace(4) @table, i32 0, i32 %i
  %v = load i32, ptr addrspace(4) %p
  ret i32 %v
}
"""


MISSING = """
declare i32 @missing(i32)
define i32 @f(i32 %x) {
  %y = call i32 @missing(i32 %x)
  ret i32 %y
}
"""


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100"], autouse=True)
def arch(request):
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


def launch(kernel, *arrays):
    @flyc.jit
    def launcher(x: fx.Tensor, out: fx.Tensor):
        kernel(x, out).launch(grid=1, block=64)

    launcher(*arrays)


def bitcode(text, path):
    binding = pytest.importorskip("llvmlite.binding")
    path.write_bytes(binding.parse_assembly(text).as_bitcode())
    return path


@pytest.mark.parametrize("form", ["text", "file", "bitcode"])
def test_functions_of_a_library(form, tmp_path):
    if form == "text":
        library = {"llvm_ir": SOURCE}
    elif form == "file":
        (tmp_path / "library.ll").write_text(SOURCE)
        library = {"bitcode_path": tmp_path / "library.ll"}
    else:
        library = {"bitcode_path": bitcode(SOURCE, tmp_path / "library.bc")}
    scaled = link_extern(ffi("scaled", ["float32", "int32"], "float32"), **library)
    looked_up = link_extern(ffi("looked_up", [fx.Int32], fx.Int32), **library)
    wide = link_extern(ffi("wide", ["int64", "uint64"], "int64"), **library)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        total = scaled(x[i], i) + looked_up(i % 4).to(fx.Float32)
        if i > 40:
            # Arguments are extended by their own sign.
            total = total + wide(fx.Int32(-5), fx.Uint32(7)).to(fx.Float32)
        out[i] = total

    x = np.random.default_rng().integers(-50, 50, 64).astype(np.float32)
    out = np.zeros(64, np.float32)
    launch(kernel, x, out)
    i = np.arange(64)
    table = np.array([10, 20, 30, 40])
    want = (x + 1) * i + table[i % 4] + np.where(i > 40, -12, 0)
    np.testing.assert_array_equal(out, want)


def test_an_intrinsic_needs_no_library():
    reverse = ffi("llvm.bitreverse.i32", ["uint32"], "uint32")

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        out[fx.thread_idx.x] = reverse(x[fx.thread_idx.x])

    x = np.random.default_rng().integers(0, 2**32, 64, dtype=np.uint32)
    out = np.zeros(64, np.uint32)
    launch(kernel, x, out)
    np.testing.assert_array_equal(out, [int(f"{v:032b}"[::-1], 2) for v in x.tolist()])


def test_another_library_is_another_compile():
    def run(text):
        function = link_extern(ffi("f", ["int32"], "int32"), llvm_ir=text)

        @flyc.kernel
        def kernel(x: fx.Tensor, out: fx.Tensor):
            out[fx.thread_idx.x] = function(x[fx.thread_idx.x])

        out = np.zeros(64, np.int32)
        launch(kernel, np.arange(64, dtype=np.int32), out)
        return out

    text = "define i32 @f(i32 %x) {{ %y = {} i32 %x, 3\n ret i32 %y }}"
    np.testing.assert_array_equal(run(text.format("add")), np.arange(64) + 3)
    np.testing.assert_array_equal(run(text.format("mul")), np.arange(64) * 3)


def test_a_resolver_finds_libraries(tmp_path):
    path = tmp_path / "f.ll"
    path.write_text("define i32 @f(i32 %x) { ret i32 7 }")
    with isolated(installed=True):
        register_extern_resolver(lambda symbol: path if symbol == "f" else None)
        assert ffi("f", ["int32"], "int32").source == str(path)
        assert ffi("g", ["int32"], "int32").library == b""
        path.unlink()
        with pytest.raises(FileNotFoundError, match=r"the library cannot be read.*FLY-U276"):
            ffi("f", ["int32"], "int32")


@pytest.mark.parametrize(
    ("declared", "text", "message"),
    [
        ("f", "define i32 @g(i32 %x) { ret i32 %x }", "f: the library defines g"),
        ("f", "define i64 @f(i32 %x) { ret i64 0 }", r"declared as i32 \(i32\).*i64 \(i32\)"),
        ("f", "define i32 @f(i32 %x) { ret i64 0 }", "FLY-T425"),
        ("f", "this is no IR", "FLY-T425"),
        (
            "f",
            MISSING,
            "missing",
        ),
    ],
)
def test_libraries_that_do_not_fit_are_refused_at_the_users_line(declared, text, message):
    function = link_extern(ffi(declared, ["int32"], "int32"), llvm_ir=text)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        out[fx.thread_idx.x] = function(x[fx.thread_idx.x])

    with pytest.raises(TargetError, match=message) as caught:
        launch(kernel, np.zeros(64, np.int32), np.zeros(64, np.int32))
    if message != "missing":
        assert caught.value.code == "FLY-T425"
        assert "out[fx.thread_idx.x] = function(x[fx.thread_idx.x])" in str(caught.value)


def test_misuse_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such type"):
        ffi("f", ["int31"], "void")
    with pytest.raises(UserError, match="void"):
        ffi("f", ["void"], "void")
    with pytest.raises(UserError, match="names no function"):
        ffi("a b", [], "void")
    function = ffi("f", ["int32"], "int32")
    with pytest.raises(UserError, match="one of bitcode_path and llvm_ir"):
        link_extern(function)
    with pytest.raises(UserError, match="cannot be read"):
        link_extern(function, bitcode_path=tmp_path / "none.bc")
    with pytest.raises(UserError, match="module_init_fn"):
        link_extern(function, llvm_ir="", module_init_fn=print)
    (tmp_path / "bad.bc").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="neither LLVM bitcode"):
        link_extern(function, bitcode_path=tmp_path / "bad.bc")

    @flyc.kernel
    def unlinked(x: fx.Tensor, out: fx.Tensor):
        out[0] = function(x[0])

    linked = link_extern(function, llvm_ir="define i32 @f(i32 %x) { ret i32 %x }")

    @flyc.kernel
    def wrong_count(x: fx.Tensor, out: fx.Tensor):
        out[0] = linked(x[0], x[1])

    arrays = np.zeros(64, np.int32), np.zeros(64, np.int32)
    with pytest.raises(UserError, match="link_extern"):
        launch(unlinked, *arrays)
    with pytest.raises(UserError, match="takes 1 arguments"):
        launch(wrong_count, *arrays)
    with pytest.raises(UserError, match="trace"):
        linked(3)
