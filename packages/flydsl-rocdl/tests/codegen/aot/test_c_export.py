"""The exported C launches through HIP what a call from Python launches."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError

STUB = Path(__file__).parents[1] / "hip" / "stub_hip.c"


@flyc.kernel
def kernel(A: fx.Tensor, B: fx.Tensor, n: fx.Int64, alpha: fx.Float32, half: fx.Float16):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        A[i, 0] = B[i] * alpha


@flyc.jit
def launch(
    A: fx.Tensor,
    B: fx.Tensor,
    n: fx.Int64,
    alpha: fx.Float32,
    short: fx.Float16,
    block: fx.Constexpr[int],
    stream: fx.Stream,
):
    blocks = (fx.Int32(n) + block - 1) // block
    kernel(A, B, n, alpha, short).launch(grid=(blocks, 2), block=(block,), smem=128, stream=stream)


@flyc.kernel
def nothing_kernel():
    fx.thread_idx.x  # noqa: B018 - an empty kernel


@flyc.jit
def nothing():
    nothing_kernel().launch(grid=3, block=32)


MAIN = """
#include "axpy.h"
#include <stdio.h>
#include <string.h>
struct record {
  uint64_t function, stream;
  uint32_t grid[3], block[3], cluster[3], lds;
  int32_t device, captured;
  uint64_t size;
  unsigned char kernarg[1024];
};
const struct record *stub_last(void);
uint64_t stub_launches(void), stub_loads(void), stub_unloads(void);
void stub_devices(int);
void stub_arch(int, const char *);
void stub_fail(int);
int hipSetDevice(int);

int main(void) {
  axpy_A_t a = {(void *)0x1000, 7, 3, 5};
  axpy_B_t b = {(void *)0x2000, 7};
  stub_devices(2);
  if (axpy(a, b, 100, 2.5f, 0x3c00, (void *)0x77)) return 1;
  if (axpy(a, b, 0, 2.5f, 0x3c00, (void *)0x77)) return 2; /* an empty grid launches nothing */
  if (stub_launches() != 1 || stub_loads() != 1) return 3;
  const struct record *r = stub_last();
  for (uint64_t i = 0; i < r->size; i++) printf("%02x", r->kernarg[i]);
  printf(" %u %u %u %u %u %llu %d\\n", r->grid[0], r->grid[1], r->grid[2], r->block[0], r->lds,
         (unsigned long long)r->stream, r->device);
  stub_fail(719);
  if (axpy(a, b, 100, 2.5f, 0x3c00, (void *)0x77) != 719) return 4;
  hipSetDevice(1);
  if (axpy(a, b, 100, 2.5f, 0x3c00, 0)) return 5;
  if (stub_last()->device != 1 || stub_loads() != 2) return 6;
  if (axpy_load(0) || stub_loads() != 2) return 7;
  if (axpy_load(16) != -1 || axpy_load(-1) != -1) return 8;
  if (axpy_unload(1) || stub_unloads() != 1 || axpy_unload(1)) return 9;
  if (axpy(a, b, 100, 2.5f, 0x3c00, 0) || stub_loads() != 3) return 10;
  puts(axpy_metadata);
  return 0;
}
"""


@pytest.fixture(scope="module")
def compiler():
    found = shutil.which("cc")
    if found is None:
        pytest.skip("exporting to C is tested with a C compiler")
    return found


@pytest.fixture
def compiled():
    a, b = np.zeros((4, 4), np.float32)[:, :2], np.zeros(4, np.float32)
    with config.scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True):
        yield flyc.compile(launch, a, b, 1, 1.0, 1.0, 64, None)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_a_c_program_launches_it(compiled, compiler, tmp_path):
    header, source = compiled.export_to_c(tmp_path, "axpy")
    assert (header.name, source.name) == ("axpy.h", "axpy.c")
    (tmp_path / "main.c").write_text(MAIN)
    program = tmp_path / "program"
    strict = ("-Wall", "-Wextra", "-Werror", "-std=gnu99")
    run(compiler, *strict, "-I", tmp_path, "-c", source, "-o", tmp_path / "axpy.o")
    run(compiler, "-I", tmp_path, "-o", program, tmp_path / "main.c", tmp_path / "axpy.o", STUB)
    launched, metadata = run(program).splitlines()
    data, *numbers = launched.split()
    assert numbers == ["2", "2", "1", "64", "128", str(0x77), "0"]
    kernarg = bytes.fromhex(data)
    words = [
        int.from_bytes(kernarg[arg.offset : arg.offset + arg.size], "little")
        for arg in compiled.kernels[0].args
        if not arg.hidden
    ]
    alpha = int(np.float32(2.5).view(np.uint32))
    assert words == [0x1000, 7, 3, 5, 0x2000, 7, 100, alpha, 0x3C00]
    assert json.loads(metadata)["kernels"][0]["name"] == compiled.kernels[0].name


def test_the_header_is_valid_cplusplus(compiled, tmp_path):
    cxx = shutil.which("c++")
    if cxx is None:
        pytest.skip("no C++ compiler")
    header, _ = compiled.export_to_c(tmp_path, "with-dash", "name")
    text = f'#include "{header.name}"\nint main() {{ return name_load(0); }}'
    (tmp_path / "main.cc").write_text(text)
    run(cxx, "-Wall", "-Werror", "-fsyntax-only", tmp_path / "main.cc")
    # A parameter called like a C keyword gets another name.
    assert "uint16_t short_" in header.read_text()


def test_a_launcher_without_parameters(compiler, tmp_path):
    with config.scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True):
        empty = flyc.compile(nothing)
    header, source = empty.export_to_c(tmp_path, "empty")
    assert "int32_t empty(void *stream);" in header.read_text()
    run(compiler, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", tmp_path / "empty.o")


@flyc.kernel
def filling_kernel(A: fx.Tensor, n: fx.Int32):
    if fx.thread_idx.x < n:
        A[fx.thread_idx.x] = 1.0


@flyc.jit
def awkward(
    a: fx.Tensor,
    a_: fx.Int32,
    text: fx.Constexpr[str],
    stream: fx.Int32,
    linux: fx.Int32,
    α: fx.Int32,  # noqa: PLC2401
    β: fx.Int32,  # noqa: PLC2401
    xor: fx.Boolean,
):
    total = a_ + stream + linux + α + β
    filling_kernel(a, total).launch(grid=1, block=64)


@flyc.jit
def two(A: fx.Tensor, fly_run: fx.Int32, int32_t: fx.Constexpr[int] = 128):
    filling_kernel(A, fly_run).launch(grid=fly_run, block=64)
    filling_kernel(A, fly_run).launch(grid=(2, 1, 1), block=int32_t)


@flyc.jit
def clustered(A: fx.Tensor, n: fx.Int32):
    filling_kernel(A, n).launch(grid=4, block=64, cluster=(2, 1, 1))


PROGRAMS = """
#include "awkward.h"
#include "clustered.h"
#include "two.h"
#include <pthread.h>
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif
struct record {
  uint64_t function, stream;
  uint32_t grid[3], block[3], cluster[3], lds;
};
const struct record *stub_last(void);
uint64_t stub_launches(void), stub_loads(void), stub_calls(void);
int64_t stub_live(int);
void stub_devices(int);
void stub_fail_after(uint64_t, int);
const char *stub_failed(void);
int hipSetDevice(int);
int hipGetDevice(int *);
#ifdef __cplusplus
}
#endif
static two_A_t t = {(void *)0x1000, 7};

static void *work(void *result) {
  *(int *)result = two(t, 3, NULL);
  return NULL;
}

static int use(int other) {
  int status = two_load(other);
  if (!status) status = two(t, 3, NULL);
  if (!status) status = two_unload(other);
  return status;
}

static int failures(void) {
  for (int device = 0; device < 2; device++) {
    int count = 0, current = 5, status;
    for (;; count++) { /* fail each call in turn, until there are no more */
      int64_t before = stub_live(0);
      hipSetDevice(device);
      stub_fail_after((uint64_t)count, 719);
      status = use(1 - device);
      if (stub_calls() <= (uint64_t)count) break;
      stub_fail_after(1u << 30, 0);
      hipGetDevice(&current);
      if (current != device && strcmp(stub_failed(), "hipSetDevice")) return 40 + count;
      hipSetDevice(device);
      if (status != 719) return 60 + count; /* a failure is a result, */
      if (use(1 - device)) return 80 + count; /* and it can be done again, */
      if (two_unload(device)) return 100 + count;
      if (stub_live(0) > before) return 120 + count; /* and nothing is lost. */
    }
    stub_fail_after(1u << 30, 0);
    if (count < 16) return 20 + count;
    if (two_unload(device)) return 19;
  }
  return 0;
}

int main(void) {
  pthread_t threads[8];
  int results[8];
  awkward_a_t a = {(void *)0x1000, 64};
  clustered_A_t c = {(void *)0x1000, 64};
  stub_devices(2);
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, &results[i]);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 8; i++)
    if (results[i]) return 1;
  if (stub_launches() != 16 || stub_loads() != 1) return 2; /* loaded once by eight threads */
  if (awkward(a, 1, 2, 3, 4, 5, 1, NULL)) return 3;
  if (stub_loads() != 2 || stub_launches() != 17) return 4;
  if (clustered(c, 1, (void *)0x77)) return 5;
  if (stub_last()->cluster[0] != 2 || stub_last()->grid[0] != 4 || stub_last()->block[0] != 64)
    return 6;
  if (stub_last()->stream != 0x77) return 7;
  c.data = (void *)0x1002; /* not where the kernel may load 16 bytes at a time */
  if (clustered(c, 1, NULL) != 1 || stub_launches() != 18) return 8;
  if (two(t, -1, NULL) >= -1) return 9; /* a grid that cannot be */
  if (two_unload(0)) return 10;
  return failures();
}
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Three exports in one folder."""
    folder = tmp_path_factory.mktemp("several")
    a = np.zeros(64, np.float32)
    with config.scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        text = "a */ b /* c 'ä' \\"
        flyc.compile(awkward, a, 1, text, 1, 1, 1, 1, True).export_to_c(folder, "awkward")
        flyc.compile(clustered, a, 1).export_to_c(folder, "clustered")
        flyc.compile(two, a, 1).export_to_c(folder, "two")
    return folder


@pytest.mark.parametrize(
    ("command", "language", "standard"),
    [("cc", "c", "c99"), ("cc", "c", "gnu17"), ("c++", "c++", "c++17")],
)
def test_several_exports_make_one_program(several, command, language, standard):
    found = shutil.which(command)
    if found is None:
        pytest.skip("no compiler of this language")
    (several / "main.c").write_text(PROGRAMS)
    strict = ("-Wall", "-Wextra", "-Werror", f"-std={standard}", "-x", language)
    objects = []
    for source in ("main", "awkward", "clustered", "two"):
        objects.append(several / f"{source}.{standard}.o")
        run(found, *strict, "-I", several, "-c", several / f"{source}.c", "-o", objects[-1])
    stub = several / "stub.o"
    run("cc", "-c", STUB, "-o", stub)
    program = several / f"program-{standard}"
    run(found, "-o", program, *objects, stub, "-pthread")
    run(program)
    # Without the launch that clusters need, they are refused and the others work.
    run("objcopy", "--strip-symbol=hipDrvLaunchKernelEx", stub, several / "older.o")
    run(found, "-o", program, *objects, several / "older.o", "-pthread")
    assert subprocess.run([program], check=False).returncode == 5


@pytest.mark.parametrize(
    "prefix", ["1x", "a-b", "", "while", "ä", "xor", "main", "linux", "hipGetDevice", "fly_run"]
)
def test_names_that_c_does_not_take_are_refused(compiled, tmp_path, prefix):
    with pytest.raises(UserError, match="no identifier"):
        compiled.export_to_c(tmp_path, "base", prefix)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_refused(compiled, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder") as caught:
        compiled.export_to_c(tmp_path / "none", "base")
    assert isinstance(caught.value, UserError)
    assert (caught.value.code, caught.value.value) == ("FLY-U484", str(tmp_path / "none"))
    with pytest.raises(NotADirectoryError, match=r"there is no folder .*FLY-U484"):
        compiled.export_to_c(Path(__file__), "base")
    (tmp_path / "taken.h").mkdir()
    with pytest.raises(IsADirectoryError, match="the C files cannot be written: Is a directory"):
        compiled.export_to_c(tmp_path, "taken")
    (tmp_path / "taken.h").rmdir()
    for base in ("", ".", "..", "../x", "a/b", 'a"b', "a\\b", "a\nb"):
        with pytest.raises(UserError, match="empty or no file name"):
            compiled.export_to_c(tmp_path, base, "name")
    assert list(tmp_path.iterdir()) == []
