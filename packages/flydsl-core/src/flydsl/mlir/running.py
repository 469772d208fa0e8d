"""Run upstream pass pipelines and parsers with MLIR's diagnostics turned into exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flydsl.errors import CompilerBug, FlyDSLError, SourceLocation, UserValueError
from flydsl.mlir.contexts import context_state

if TYPE_CHECKING:
    from mlir import ir  # type: ignore[import-untyped]

__all__ = ["capture_diagnostics", "parse_module", "run_pipeline", "source_location", "verify"]

_FILE_LOCATION = re.compile(r'"((?:[^"\\]|\\.)+)":(\d+):(\d+)')


def source_location(location: Any) -> SourceLocation | None:
    """Return the first file, line and column that an ``ir.Location`` names; None if it has none.

    A call-site location names the innermost (callee) place first, which is the user's expression.
    """
    for found in _FILE_LOCATION.finditer(str(location)):
        file = found[1].replace('\\"', '"').replace("\\\\", "\\")
        if file not in ("-", "<stdin>"):
            return SourceLocation(file, int(found[2]), max(0, int(found[3]) - 1))
    return None


@contextmanager
def capture_diagnostics(context: ir.Context) -> Iterator[list[tuple[str, str, Any]]]:
    """Collect diagnostics instead of printing them: ``(severity, message with notes, location)``.

    Severity is ``"error"``, ``"warning"``, ``"remark"`` or ``"note"``.
    """
    collected: list[tuple[str, str, Any]] = []

    def handle(diagnostic: Any) -> bool:
        notes = "".join(f"\n  note: {note.message}" for note in diagnostic.notes)
        severity = str(diagnostic.severity).rsplit(".", 1)[-1].lower()
        collected.append((severity, diagnostic.message + notes, diagnostic.location))
        return True

    handler = context.attach_diagnostic_handler(handle)
    try:
        yield collected
    finally:
        handler.detach()


def _errors(error: Exception, collected: list[tuple[str, str, Any]]) -> list[tuple[str, Any]]:
    """Return (message, location) of every error, from the handler and from an ``MLIRError``."""
    out = [(message, location) for severity, message, location in collected if severity == "error"]
    for info in getattr(error, "error_diagnostics", None) or ():
        notes = "".join(f"\n  note: {note.message}" for note in info.notes)
        out.append((info.message + notes, info.location))
    return out or [(str(error), None)]


def _bug(what: str, error: Exception, collected: list[tuple[str, str, Any]]) -> CompilerBug:
    found = _errors(error, collected)
    location = next((at for _, place in found if (at := source_location(place))), None)
    text = "\n".join(message for message, _ in found)
    return CompilerBug(f"{what}: {text}", code="FLY-B302", location=location)


def run_pipeline(module: ir.Module, text: str) -> None:
    """Run the textual pass pipeline `text`, e.g. ``"builtin.module(canonicalize,cse)"``.

    The module is not verified between passes; `verify` does that on demand.

    Raises:
        CompilerBug: The pipeline does not parse or a pass fails; carries all error diagnostics and
            the user's line where the location names one.
    """
    from flydsl.mlir import ir, passmanager

    context = module.context
    known = context_state(context).pipelines
    # Out of the cache while it runs: one that failed is not used again.
    manager = known.pop(text, None)
    if manager is None:
        try:
            manager = passmanager.PassManager.parse(text, context)
        except (ValueError, ir.MLIRError) as error:
            raise CompilerBug(
                f"not a pass pipeline: {error}", code="FLY-B303", value=text
            ) from error
        manager.enable_verifier(False)
    with capture_diagnostics(context) as collected:
        try:
            manager.run(module.operation)
        except FlyDSLError:
            raise
        except ir.MLIRError as error:
            raise _bug(f"the MLIR pipeline {text} failed", error, collected) from error
    known[text] = manager
    failed = [entry for entry in collected if entry[0] == "error"]
    if failed:
        raise _bug(f"the MLIR pipeline {text} reported", ValueError(failed[0][1]), collected)


def verify(module: ir.Module, after: str = "") -> None:
    """Check the module with MLIR's verifier.

    Args:
        module: The module to check.
        after: What produced it, for the message.

    Raises:
        CompilerBug: The module is invalid.
    """
    from flydsl.mlir import ir

    with capture_diagnostics(module.context) as collected:
        try:
            if module.operation.verify():
                return
            error: Exception = ValueError("the verifier gave no reason")
        except ir.MLIRError as caught:
            error = caught
    raise _bug(f"invalid IR after {after}" if after else "invalid IR", error, collected)


def parse_module(text: str, context: ir.Context, name: str = "") -> ir.Module:
    """Parse MLIR text.

    Args:
        text: A module, or a list of top-level operations.
        context: A context of `new_context`.
        name: Where the text comes from, for the message.

    Raises:
        UserError: The text does not parse or does not verify.
    """
    from flydsl.mlir import ir

    with capture_diagnostics(context) as collected:
        try:
            return ir.Module.parse(text, context)
        except ir.MLIRError as error:
            messages = [message for message, _ in _errors(error, collected)]
    raise UserValueError(
        f"{name or 'the text'} is not valid MLIR: " + "\n".join(messages), code="FLY-U300"
    )
