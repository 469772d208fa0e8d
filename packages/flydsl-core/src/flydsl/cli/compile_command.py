"""``flydsl compile``: compiles a launcher ahead of time, for one or several targets."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flydsl.errors import UserTypeError, UserValueError

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from flydsl.frontend import JitFunction

__all__ = ["add", "run"]

_TENSOR = re.compile(r"(\w+)\[(\d+)\](?:@(\d+))?\Z")


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "compile",
        help="compile a launcher ahead of time",
        description="Compile a launcher ahead of time. Writes, per target, the launcher (.fly, for "
        "flydsl.compiler.load), the code object, the assembly text and the resources; with --c "
        "also a C header and source. The module is imported, so keep what is to run only as a "
        "program under `if __name__ == '__main__'`; what it prints goes to standard error.",
    )
    parser.add_argument("launcher", help="module:function")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=KIND",
        help="a tensor as dtype[rank] or dtype[rank]@alignment, innermost stride 1 (A=float32[2]); "
        "a pointer as dtype or dtype@alignment (P=float32@16); a compile-time value as a Python "
        "literal (block=256). Numbers and streams need none",
    )
    parser.add_argument("--target", required=True, help="targets, separated by commas")
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder for the files")
    parser.add_argument("--c", action="store_true", help="also export to C")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compile and write the files."""
    from flydsl import config
    from flydsl.compiler import compile as compile_launcher

    with contextlib.redirect_stdout(sys.stderr):
        function = _launcher(args.launcher)
    given = _given(function, args.arg)
    values = [_value(parameter, given) for parameter in function.signature.parameters]
    targets = _targets(args.target)
    with _writing(args.output):
        args.output.mkdir(parents=True, exist_ok=True)
    for name, target in targets.items():
        with config.scope(FLYDSL_TARGET=target, COMPILE_ONLY=True):
            base = f"{function.name}-{name}"
            # What the program prints while it is traced is none of the command's output.
            with contextlib.redirect_stdout(sys.stderr):
                compiled = compile_launcher(function, *values)
                with _writing(args.output):
                    _write(args.output, base, compiled, c=args.c)
        print(f"{args.output / base}.fly  {target}\n{compiled.report()}")
    return 0


def _targets(text: str) -> dict[str, str]:
    """Return the targets by what files call them; all are checked before the first is compiled."""
    from flydsl.targets import create_target

    found: dict[str, str] = {}
    for target in (part.strip() for part in text.split(",")):
        create_target(target)
        switched = target.replace("+", "_on").replace("-", "_off")
        name = re.sub(r"[^A-Za-z0-9]+", "_", switched).strip("_")
        if name in found:
            raise UserValueError(
                "two targets are the same, or their files would be",
                code="FLY-U483",
                value=f"{found[name]}, {target}",
            )
        found[name] = target
    return found


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserValueError(
            f"the files cannot be written: {error.strerror or error}",
            code="FLY-U483",
            value=str(error.filename or folder),
            allowed="a folder for the files, which is made if it does not exist",
        ) from error


def _write(folder: Path, base: str, compiled: Any, *, c: bool) -> None:
    compiled.save(folder / f"{base}.fly")
    (folder / f"{base}.{compiled.code.format}").write_bytes(compiled.hsaco)
    (folder / f"{base}.s").write_text(compiled.isa, encoding="utf-8")
    (folder / f"{base}.txt").write_text(compiled.report() + "\n", encoding="utf-8")
    if c:
        compiled.export_to_c(folder, base, base.replace("-", "_"))


def _launcher(text: str) -> JitFunction:
    from flydsl.frontend import JitFunction

    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise UserValueError(
            "the launcher is named as module:function", code="FLY-U483", value=text
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there; an import in it fails
        raise UserValueError(
            f"there is no module {error.name}",
            code="FLY-U483",
            value=text,
            allowed="module:function",
            hint="it is looked for in the current folder and on PYTHONPATH",
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        names = [n for n, value in _members(module) if isinstance(value, JitFunction)]
        close = get_close_matches(name, names, n=2)
        raise UserValueError(
            f"there is no {name} in {module}",
            code="FLY-U483",
            value=text,
            allowed=", ".join(names) or "a function decorated with @flyc.jit, of which it has none",
            hint=f"did you mean {' or '.join(close)}?" if close else "",
        )
    if not isinstance(found, JitFunction) or found.signature.method:
        raise UserTypeError(
            f"{text} is no function decorated with @flyc.jit",
            code="FLY-U483",
            value=found,
            hint="methods need an object: compile them with flyc.compile(object.method, ...).save()"
            if isinstance(found, JitFunction)
            else "",
        )
    return found


def _members(module: str) -> list[tuple[str, object]]:
    return sorted(vars(sys.modules[module]).items(), key=lambda item: item[0])


def _given(function: JitFunction, arguments: list[str]) -> dict[str, str]:
    """Return what ``--arg`` gives, by parameter."""
    known = [parameter.name for parameter in function.signature.parameters]
    given: dict[str, str] = {}
    for name, text in map(_split, arguments):
        if name not in known:
            close = get_close_matches(name, known, n=2)
            raise UserValueError(
                f"{function.name} has no parameter {name!r}",
                code="FLY-U483",
                value=f"{name}={text}",
                allowed=", ".join(known) or "no --arg: it has no parameters",
                hint=f"did you mean {' or '.join(close)}?" if close else "",
            )
        if name in given:
            raise UserValueError(f"{name!r} is given twice", code="FLY-U483", value=text)
        given[name] = text
    return given


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserValueError("an argument is given as name=kind", code="FLY-U483", value=text)
    return name.strip(), value.strip()


def _value(parameter: Any, given: dict[str, str]) -> object:
    """Return a placeholder or value for one parameter; takes it out of `given`."""
    from flydsl.expr import Pointer, Stream
    from flydsl.expr.numeric.base import is_numeric_class

    text = given.pop(parameter.name, None)
    wanted = parameter.dsl_type
    if text is None:
        if parameter.constexpr and parameter.default is not parameter.EMPTY:
            return parameter.default
        if wanted is Stream:
            return Stream(None)
        if is_numeric_class(wanted):
            return wanted.zero
        raise UserValueError(
            f"parameter {parameter.name!r} needs --arg",
            code="FLY-U483",
            allowed=f"--arg {parameter.name}=KIND with float32[2] for a tensor, float32 for a "
            "pointer, or a literal for a compile-time value",
        )
    if text == "None" and parameter.optional:
        return None
    if parameter.constexpr:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError) as error:
            raise UserValueError(
                f"the value of {parameter.name!r} is no Python literal",
                code="FLY-U483",
                value=text,
            ) from error
    if wanted is Pointer:
        return _pointer(parameter.name, text)
    if wanted is Stream or is_numeric_class(wanted):
        raise UserValueError(
            f"parameter {parameter.name!r} is passed at run time and takes no --arg",
            code="FLY-U483",
            value=text,
            hint="annotate it with fx.Constexpr to compile a value in",
        )
    return _placeholder(parameter.name, text)


def _pointer(name: str, text: str) -> object:
    from flydsl.compiler import from_c_void_p
    from flydsl.compiler.arguments.dtypes import ELEMENTS
    from flydsl.expr import numeric

    dtype, at, alignment = text.partition("@")
    kinds = {name.lower(): kind for name, kind in vars(numeric).items() if name in numeric.__all__}
    kind: Any = kinds.get(dtype.replace("_", "")) if dtype in ELEMENTS else None
    if kind is None or (at and not alignment.isdecimal()):
        raise UserValueError(
            f"the kind of {name!r} is no pointer",
            code="FLY-U483",
            value=text,
            allowed="dtype or dtype@alignment; dtypes: "
            + ", ".join(name for name in ELEMENTS if name.replace("_", "") in kinds),
        )
    return from_c_void_p(kind, 0, assumed_align=int(alignment) if at else None)


def _placeholder(name: str, text: str) -> object:
    from flydsl.compiler.arguments.dtypes import ELEMENTS

    match = _TENSOR.match(text)
    alignment = int(match[3] or 16) if match else 0
    good = match and match[1] in ELEMENTS and int(match[2]) > 0
    if match is None or not good or alignment & (alignment - 1) or not 1 <= alignment <= 16:
        raise UserValueError(
            f"the kind of {name!r} is no tensor",
            code="FLY-U483",
            value=text,
            allowed="dtype[rank] or dtype[rank]@alignment, alignment 1 to 16; dtypes: "
            + ", ".join(ELEMENTS),
        )
    return _Placeholder(match[1], int(match[2]), alignment)


class _Placeholder:
    """A tensor that exists only as a kind: nothing reads its address."""

    def __init__(self, dtype: str, rank: int, alignment: int) -> None:
        from flydsl.compiler.arguments.dtypes import ELEMENTS

        size = ELEMENTS[dtype].size
        names = {"bool": "b", "uint": "u", "int": "i", "float": "f"}
        letter = next((c for n, c in names.items() if re.fullmatch(rf"{n}\d*", dtype)), "V")
        self.dtype = _Named(dtype)
        self.__array_interface__ = {
            "shape": (2,) * rank,
            "strides": tuple(size * 4 ** (rank - 1 - axis) for axis in range(rank)),
            "typestr": f"<{letter}{size}",
            "data": (alignment, False),
            "version": 3,
        }


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name
