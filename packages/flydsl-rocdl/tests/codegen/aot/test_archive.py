"""Compiled launchers as files, from Python and from the command line."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl import config
from flydsl.cli import main
from flydsl.errors import UserError

PROGRAM = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def kernel(A: fx.Tensor, n: fx.Int32, alpha: fx.Float32, block: fx.Constexpr[int]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        A[i] = A[i] * alpha

@flyc.jit
def launch(A: fx.Tensor, n: fx.Int32, alpha: fx.Float32, block: fx.Constexpr[int] = 64):
    kernel(A, n, alpha, block).launch(grid=((n + block - 1) // block,), block=(block,))

plain = 3
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "aot_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "aot_program", raising=False)
    return tmp_path


def test_a_saved_launcher_runs_without_its_program(program):
    import aot_program

    a = np.arange(100, dtype=np.float32)
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(aot_program.launch, a, 1, 1.0).save(program / "scale.fly")
    (program / "aot_program.py").unlink()
    script = textwrap.dedent(
        f"""
        import sys
        import numpy as np
        import flydsl.compiler as flyc
        scale = flyc.load({str(program / "scale.fly")!r})
        a = np.arange(100, dtype=np.float32)
        scale(a, 100, 3.0, None)
        scale(a[48:60], 12, 2.0, None)
        expected = np.arange(100) * 3.0
        expected[48:60] *= 2
        assert (a == expected).all()
        assert "mlir" not in sys.modules
        assert "llvmlite" not in sys.modules
        print(scale.kernels[0].name, scale)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "LoadedFunction launch for gfx942" in done.stdout


def test_arguments_of_other_kinds_and_other_devices_are_refused(program):
    import aot_program

    a = np.zeros(8, np.float32)
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(aot_program.launch, a, 1, 1.0).save(program / "scale.fly")
    scale = flyc.load(program / "scale.fly")
    for _ in range(2):
        with pytest.raises(UserError, match="compiled for another 'block'"):
            scale(a, 8, 3.0, 128)
    for arguments in (
        (a.astype(np.float64), 1, 1.0, 64),
        (a.reshape(2, 4), 1, 1.0, 64),
    ):
        with pytest.raises(UserError, match="other kinds"):
            scale(*arguments)
    for arguments, missing in (((a, 1, 1.0), "block"), ((), "A")):
        with pytest.raises(UserError, match=f"missing '{missing}'"):
            scale(*arguments)
    with pytest.raises(UserError, match="outside the range"):
        scale(a, 2**31, 1.0, 64)


CONFIGURED = """
import dataclasses
import flydsl.compiler as flyc
import flydsl.expr as fx

@dataclasses.dataclass(frozen=True)
class Plan:
    block: int

@flyc.kernel
def kernel(A: fx.Tensor, plan: fx.Constexpr, kind: fx.Constexpr):
    A[fx.thread_idx.x] = kind(plan.block)

@flyc.jit
def launch(A: fx.Tensor, plan: fx.Constexpr, kind: fx.Constexpr):
    kernel(A, plan, kind).launch(grid=1, block=plan.block)
"""


def test_compile_time_objects_are_compared_by_their_text(program, monkeypatch):
    (program / "aot_configured.py").write_text(CONFIGURED)
    monkeypatch.delitem(sys.modules, "aot_configured", raising=False)
    import aot_configured

    import flydsl.expr as fx

    plan, a = aot_configured.Plan(64), np.zeros(64, np.float32)
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(aot_configured.launch, a, plan, fx.Float32).save(program / "plan.fly")
    loaded = flyc.load(program / "plan.fly")
    for given in ((plan, fx.Float32), (aot_configured.Plan(64), None), (None, None)):
        a[:] = 0
        loaded(a, *given)
        assert (a == 64).all()
    for given in ((aot_configured.Plan(32), fx.Float32), (plan, fx.Int32), (32, None)):
        with pytest.raises(UserError, match=r"compiled for another '(plan|kind)'"):
            loaded(a, *given)


def test_only_such_files_are_loaded(program):
    import aot_program

    path = program / "scale.fly"
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(aot_program.launch, np.zeros(8, np.float32), 1, 1.0).save(path)
    good = path.read_bytes()
    for damaged in (b"", good[:-1], good[:40], good + b"x", good.replace(b"launch", b"munch!")):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="no compiled launcher"):
            flyc.load(path)


def rewritten(good, change):
    """Return a file with other contents and a digest that fits them."""
    import hashlib
    import pickle

    head = good.index(b"\n") + 1
    contents = list(pickle.loads(good[head + 32 :]))
    change(contents)
    body = pickle.dumps(tuple(contents))
    return good[:head] + hashlib.sha256(body).digest() + body


def test_files_of_other_versions_are_refused_only_if_they_differ(program, monkeypatch):
    """Fields of pickled data classes go by position: another set of them would be mixed up."""
    import aot_program

    import flydsl

    path = program / "scale.fly"
    a = np.ones(8, np.float32)
    monkeypatch.setattr(flydsl, "__version__", "0.0.7")
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(aot_program.launch, a, 1, 1.0).save(path)
    monkeypatch.undo()
    flyc.load(path)(a, 8, 2.0, 64)
    assert (a == 2).all()
    good = path.read_bytes()

    def fewer_fields(contents):
        name = next(name for name in contents[2] if name.endswith(":KernelInfo"))
        contents[2][name] = contents[2][name][:-1]

    def unknown_class(contents):
        contents[2]["flydsl.compiler.artifact:Gone"] = ()

    def unknown_module(contents):
        contents[2]["flydsl.gone:Gone"] = ()

    def another_abi(contents):
        contents[1] += 1

    def damaged(contents):
        contents[3] = contents[3][:-9]

    for change in (fewer_fields, unknown_class, unknown_module, another_abi, damaged):
        path.write_bytes(rewritten(good, change))
        with pytest.raises(UserError, match=r"written by version 0\.0\.7 of flydsl"):
            flyc.load(path)
    older = good.replace(b"launcher 2\n", b"launcher 1\n", 1)
    for data in (older, rewritten(good, list.clear)):
        path.write_bytes(data)
        with pytest.raises(UserError, match="written by another version"):
            flyc.load(path)


def test_other_kinds_of_arguments_do_not_load_the_code_again(program, monkeypatch):
    import aot_program

    from flydsl.compiler.loading import LoadedArtifact

    a = np.zeros(8, np.float32)
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(aot_program.launch, a, 1, 1.0).save(program / "scale.fly")
    loads = []
    original = LoadedArtifact.load
    monkeypatch.setattr(LoadedArtifact, "load", lambda *given: loads.append(1) or original(*given))
    scale = flyc.load(program / "scale.fly")
    torch = pytest.importorskip("torch")
    for arguments in ((a, 8, 1.0), (torch.zeros(8), 8, 1.0), (a, np.int32(8), 1.0)):
        scale(*arguments, 64)
    assert len(loads) == 1


def test_a_launcher_that_was_only_compiled_does_not_launch(program):
    import aot_program

    a = np.zeros(8, np.float32)
    with config.scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True):
        compiled = flyc.compile(aot_program.launch, a, 1, 1.0)
        with pytest.raises(UserError, match="only compiled") as caught:
            compiled(a, 1, 1.0, 64)
        compiled.save(program / "scale.fly")
        loaded = flyc.load(program / "scale.fly")
        with pytest.raises(UserError, match="only compiled"):
            loaded(a, 1, 1.0, 64)
    assert (caught.value.code, caught.value.value) == ("FLY-U422", "COMPILE_ONLY=1")
    assert not a.any()
    assert compiled.hsaco[:4] == b"\x7fELF"
    assert "s_endpgm" in compiled.isa
    assert "kernel_0" in compiled.report()
    a += 1
    # The setting counts where something would be launched.
    for called in (compiled, loaded):
        called(a, 8, 3.0, 64)
    assert (a == 9).all()


def test_what_was_compiled_for_a_target_is_called_for_it(program):
    """Whatever the settings name at the call; nor is it taken for what they would compile."""
    import aot_program

    from flydsl.compiler.driver import cache_of

    launch, a = aot_program.launch, np.ones(8, np.float32)
    with config.scope(FLYDSL_TARGET="gfx1250", FLYDSL_COMPILE_OPT_LEVEL=1):
        compiled = flyc.compile(launch, a, 1, 1.0)
    with config.scope(FLYDSL_TARGET="gfx942"):
        compiled(a, 8, 3.0, None)
        launch(a, 8, 5.0)
    assert (a == 15).all()
    for (key, _), _loaded in cache_of(launch)._loaded.items():
        assert cache_of(launch).artifact(key).code.target.arch == key.target.partition(":")[0]
    assert {(key.target, key.options) for key, _ in cache_of(launch)._loaded} == {
        (key.target, key.options) for key in cache_of(launch)._artifacts
    }
    assert len(cache_of(launch)._loaded) == 2


@pytest.mark.parametrize("name", ["none/scale.fly", "folder", "folder/file/scale.fly"])
def test_files_that_cannot_be_read_or_written_are_errors_of_both_kinds(program, name):
    import aot_program

    (program / "folder").mkdir()
    (program / "folder" / "file").write_text("in the way")
    with config.scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True):
        compiled = flyc.compile(aot_program.launch, np.ones(8, np.float32), 1, 1.0)
    kind = {
        "none/scale.fly": FileNotFoundError,
        "folder": IsADirectoryError,
        "folder/file/scale.fly": NotADirectoryError,
    }[name]
    for use in (compiled.save, flyc.load):
        with pytest.raises(kind) as caught:
            use(program / name)
        error = caught.value
        assert isinstance(error, UserError)
        assert (error.code, error.value) == ("FLY-U484", str(program / name))
        assert error.filename == str(program / name)
        assert isinstance(OSError(error.errno, ""), kind)
        assert error.allowed
        assert error.location.file == __file__
        for nothing in (None, 3, b"scale.fly", "a\0b"):
            with pytest.raises(UserError, match="no path of a file") as caught:
                use(nothing)
            assert caught.value.value == nothing


def test_the_command_compiles_for_several_targets(program, capsys):
    out = program / "out"
    command = ["compile", "aot_program:launch", "--arg", "A=float32[1]", "-o", str(out)]
    assert main([*command, "--target", "gfx942,gfx950", "--arg", "block=128", "--c"]) == 0
    suffixes = ("c", "fly", "h", "hsaco", "s", "txt")
    expected = sorted(f"launch-{t}.{s}" for t in ("gfx942", "gfx950") for s in suffixes)
    assert sorted(path.name for path in out.iterdir()) == expected
    assert "amdhsa--gfx950" in (out / "launch-gfx950.s").read_text()
    assert "waves/simd" in capsys.readouterr().out
    a = np.ones(300, np.float32)
    flyc.load(out / "launch-gfx950.fly")(a, 300, 4.0, 128)
    assert (a == 4).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["aot_program:launch"], "'A' needs --arg"),
        (["aot_program:launch", "--arg", "A"], "name=kind"),
        (["aot_program:launch", "--arg", "A=float33[1]"], "no tensor"),
        (["aot_program:launch", "--arg", "A=float32[0]"], "no tensor"),
        (["aot_program:launch", "--arg", "A=float32[1]@3"], "no tensor"),
        (["aot_program:launch", "--arg", "A=float32[1]", "--arg", "block=x"], "no Python literal"),
        (["aot_program:launch", "--arg", "A=float32[1]", "--arg", "B=1"], "no parameter 'B'"),
        (["aot_program:launch", "--arg", "blck=3"], "did you mean block?"),
        (["aot_program:launch", "--arg", "blck=3"], "allowed: A, n, alpha, block"),
        (["aot_program:plain"], "no function decorated"),
        (["aot_program:lunch"], "did you mean launch?"),
        (["aot_program:other"], "allowed: launch"),
        (["aot_program"], "module:function"),
    ],
)
def test_the_command_explains_wrong_use(program, capsys, arguments, words):
    status = main(["compile", *arguments, "--target", "gfx942", "-o", str(program / "out")])
    assert status != 0
    assert words in capsys.readouterr().err


def test_what_the_program_prints_is_not_the_command_s_output(program, monkeypatch, capsys):
    (program / "aot_talking.py").write_text(
        PROGRAM.replace("    kernel(A", "    print('traced')\n    kernel(A")
        + "print('imported')\nif __name__ == '__main__':\n    print('run')\n"
    )
    monkeypatch.delitem(sys.modules, "aot_talking", raising=False)
    out = program / "out"
    command = ["compile", "aot_talking:launch", "--arg", "A=float32[1]", "--target", "gfx942"]
    assert main([*command, "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == f"{out / 'launch-gfx942.fly'}  gfx942"
    for word in ("imported", "traced"):
        assert word in printed.err
        assert word not in printed.out
    assert "run" not in printed.err.splitlines()


POINTERS = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def kernel(A: fx.Tensor, P: fx.Pointer, n: fx.Int32):
    A[0] = n

@flyc.jit
def launch(A: fx.Tensor, P: fx.Pointer, n: fx.Int32, stream: fx.Stream):
    kernel(A, P, n).launch(grid=1, block=64, stream=stream)

class Holder:
    @flyc.jit
    def method(self, A: fx.Tensor):
        pass
"""


@pytest.fixture
def pointers(program, monkeypatch):
    (program / "aot_pointers.py").write_text(POINTERS)
    monkeypatch.delitem(sys.modules, "aot_pointers", raising=False)
    return program / "out"


@pytest.mark.parametrize(
    ("kind", "element", "alignment"),
    [
        ("float32", "f32", 4),
        ("bfloat16@16", "bf16", 16),
        ("float8_e4m3fn", "f8E4M3FN", 1),
        ("uint16@2", "i16", 2),
    ],
)
def test_the_command_takes_pointers(pointers, kind, element, alignment):
    arguments = ["aot_pointers:launch", "--arg", "A=int32[1]", "--arg", f"P={kind}"]
    assert main(["compile", *arguments, "--target", "gfx942", "-o", str(pointers)]) == 0
    described = flyc.load(pointers / "launch-gfx942.fly").description.parameters[1]
    assert (described.kind, described.alignment) == ("pointer", alignment)
    assert described.element.removeprefix("u") == element


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arg", "P=float32[1]"], "no pointer"),
        (["--arg", "P=bool"], "no pointer"),
        (["--arg", "P=complex64"], "no pointer"),
        (["--arg", "P=float32@"], "no pointer"),
        (["--arg", "P=float32@3"], "power of two"),
        (["--arg", "P=int8", "--arg", "P=int8"], "'P' is given twice"),
        (["--arg", "P=int8", "--arg", "n=3"], "'n' is passed at run time and takes no --arg"),
        (["--arg", "P=int8", "--arg", "stream=0"], "'stream' is passed at run time"),
        (["--arg", "P=int8", "--target", "gfx942,gfx000"], "unknown AMD architecture"),
        (["--arg", "P=int8", "--target", "gfx942, gfx942"], "two targets are the same"),
        (["--arg", "P=int8", "--target", "gfx942,"], "no installed plugin knows this target"),
        (["--arg", "P=int8", "-o", "aot_pointers.py"], "cannot be written: File exists"),
        (["--arg", "P=int8", "-o", "aot_pointers.py/x"], "cannot be written: Not a directory"),
    ],
)
def test_nothing_is_written_for_wrong_arguments(pointers, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(pointers.parent)
    command = ["compile", "aot_pointers:launch", "--arg", "A=int32[1]", "--target", "gfx942"]
    assert main([*command, "-o", str(pointers), *arguments]) == 1
    assert words in capsys.readouterr().err
    assert not pointers.exists()


def test_methods_need_an_object(pointers, capsys):
    command = ["compile", "aot_pointers:Holder.method", "--arg", "A=int32[1]", "--target", "gfx942"]
    assert main([*command, "-o", str(pointers)]) == 1
    assert "methods need an object" in capsys.readouterr().err


def test_features_are_part_of_the_names_of_files(program, capsys):
    targets = "gfx942:xnack+,gfx942:xnack-,gfx942:sramecc+:xnack-,gfx942"
    command = ["compile", "aot_program:launch", "--arg", "A=float32[1]", "--target", targets]
    assert main([*command, "-o", str(program / "out"), "--c"]) == 0
    for name, target in (
        ("launch-gfx942_xnack_on", "gfx942:xnack+"),
        ("launch-gfx942_xnack_off", "gfx942:xnack-"),
        ("launch-gfx942_sramecc_on_xnack_off", "gfx942:sramecc+:xnack-"),
        ("launch-gfx942", "gfx942"),
    ):
        assert flyc.load(program / "out" / f"{name}.fly").description.target == target
        assert (program / "out" / f"{name}.h").exists()


def test_a_target_that_does_not_exist_is_refused(program, capsys):
    command = ["compile", "aot_program:launch", "--arg", "A=bfloat16[2]@8", "-o", str(program)]
    assert main([*command, "--target", "gfx000"]) != 0
    assert "unknown AMD architecture" in capsys.readouterr().err
