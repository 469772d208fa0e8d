"""``flydsl opt``: runs registered passes and upstream pipelines on MLIR text."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flydsl.config import compile_options
from flydsl.errors import UserOSError, UserValueError
from flydsl.plugins import plugin_manager
from flydsl.plugins.manager import load_dotted
from flydsl.plugins.payloads import Stage

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from flydsl.targets import Target

__all__ = ["add", "parse_stage", "run", "run_stages"]


class _AppendStage(argparse.Action):
    """Keeps ``--pass`` and ``--mlir`` in the order in which they were given."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        stages = list(namespace.stages or ())
        if option_string == "--mlir":
            stages.append(Stage("mlir", "mlir", values))
        else:
            stages.append(parse_stage(values))
        namespace.stages = stages


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "opt",
        help="run passes on MLIR text",
        description="Run registered passes and upstream pipelines on MLIR text, in order.",
    )
    parser.add_argument("file", nargs="?", default="-", help="MLIR text; - for standard input")
    parser.add_argument(
        "-p",
        "--pass",
        dest="stages",
        action=_AppendStage,
        metavar="NAME[:KEY=VALUE,...]",
        help="a registered pass (see --list)",
    )
    parser.add_argument(
        "--mlir",
        dest="stages",
        action=_AppendStage,
        metavar="TEXT",
        help="an upstream pipeline such as 'builtin.module(canonicalize,cse)'",
    )
    parser.add_argument("--target", help="target for passes that need one")
    parser.add_argument(
        "--pipeline", action="store_true", help="run the target's whole pipeline instead"
    )
    parser.add_argument("--verify", action="store_true", help="verify after every stage")
    parser.add_argument("--list", action="store_true", help="list registered passes")
    parser.add_argument("-o", "--output", default="-", help="where to write; - for standard output")
    parser.set_defaults(run=run)


def parse_stage(text: str) -> Stage:
    """Parse ``name`` or ``name:key=value,key=value``; values are Python literals or bare words.

    Raises:
        UserValueError: An option has no ``=``.
    """
    name, _, rest = text.partition(":")
    options: list[tuple[str, object]] = []
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UserValueError(
                f"pass option {part!r} has no value", code="FLY-U520", allowed="key=value"
            )
        try:
            options.append((key, ast.literal_eval(value)))
        except (ValueError, SyntaxError):
            options.append((key, value))
    return Stage(name, "pass", options=tuple(sorted(options)))


def run_stages(
    module: Any, target: Target | None, stages: Sequence[Stage], *, verify: bool = False
) -> None:
    """Run `stages` on an ``ir.Module`` in place.

    Args:
        module: The module.
        target: Handed to every pass.
        stages: Passes and upstream pipelines.
        verify: Verify after every stage.

    Raises:
        UserValueError: No pass has that name.
    """
    from flydsl import mlir

    passes = plugin_manager().announced.passes
    for stage in stages:
        if stage.kind == "mlir":
            mlir.run_pipeline(module, stage.text)
        elif stage.name not in passes:
            raise UserValueError(
                f"there is no pass {stage.name!r}",
                code="FLY-U521",
                allowed=", ".join(sorted(passes)),
            )
        else:
            load_dotted(passes[stage.name], "pass")(module, target, **dict(stage.options))
        if verify:
            mlir.verify(module, after=stage.name)


def run(args: argparse.Namespace) -> int:
    """Run the stages asked for and write the module; return 0."""
    if args.list:
        for name, where in sorted(plugin_manager().announced.passes.items()):
            print(f"{name}  ({where})")
        return 0
    from flydsl import mlir
    from flydsl.targets import choose_target, create_target, pipeline_for

    stages: list[Stage] = list(args.stages or ())
    if args.pipeline and stages:
        raise UserValueError("--pipeline replaces --pass and --mlir", code="FLY-U522")
    target = create_target(args.target) if args.target else None
    if args.pipeline:
        target = target or choose_target(compile_only=True)
        stages = list(pipeline_for(target, compile_options()).stages)
    module = mlir.parse_module(_read(args.file), mlir.new_context(), args.file)
    run_stages(module, target, stages, verify=args.verify)
    text = str(module).rstrip("\n") + "\n"
    if args.output == "-":
        sys.stdout.write(text)
    else:
        try:
            Path(args.output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserOSError.of(
                error, "the module cannot be written", args.output, code="FLY-U525"
            ) from error
    return 0


def _read(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserValueError(f"{name} cannot be read: {error}", code="FLY-U523") from error
