"""MLIR contexts with the Fly dialect, and the per-context caches that belong to them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from flydsl.errors import CompilerBug

if TYPE_CHECKING:
    from mlir import ir  # type: ignore[import-untyped]

__all__ = [
    "ContextState",
    "context_state",
    "new_context",
    "register_dialect_source",
    "thread_context",
]

_SOURCES: Final[dict[str, str]] = {}
"""Dialect name -> IRDL text; filled when `flydsl.dialects` or a target's dialect is imported."""
_LOCAL = threading.local()
_ATTRIBUTE = "_flydsl_state"


class ContextState:
    """Caches tied to one context; they die with it.

    Attributes:
        types: Fly type text or wrapper -> ``ir.Type``.
        parsed: ``ir.Type`` -> its Python wrapper.
        attributes: Cached ``ir.Attribute`` objects by an arbitrary key.
        pipelines: Pass managers by pipeline text; a conversion pass builds its patterns once.
    """

    __slots__ = ("attributes", "loaded", "parsed", "pipelines", "types")

    def __init__(self) -> None:
        self.types: dict[Any, Any] = {}
        self.parsed: dict[Any, Any] = {}
        self.attributes: dict[Any, Any] = {}
        self.pipelines: dict[str, Any] = {}
        self.loaded: set[str] = set()


def register_dialect_source(name: str, text: str) -> None:
    """Make every context load the dialect `name` from its IRDL definition `text`.

    Contexts that exist already load it when `thread_context` next returns them.

    Raises:
        CompilerBug: Another text is registered under this name.
    """
    if _SOURCES.setdefault(name, text) != text:
        raise CompilerBug(f"two different definitions of the dialect {name!r}", code="FLY-B300")


def _load_missing(context: ir.Context, state: ContextState) -> None:
    from flydsl.mlir import ir, irdl, opviews

    for name, text in list(_SOURCES.items()):
        if name in state.loaded:
            continue
        try:
            irdl.load_dialects(ir.Module.parse(text, context))
        except ir.MLIRError as error:
            raise CompilerBug(
                f"the definition of the dialect {name!r} does not load: {error}", code="FLY-B300"
            ) from error
        opviews.mark(name)
        state.loaded.add(name)


def new_context() -> ir.Context:
    """Return a new context with the Fly dialect and all registered dialects loaded (10 ms)."""
    import importlib

    from flydsl.mlir import ir

    # The layer above holds the definition of the Fly dialect; it registers itself when imported.
    importlib.import_module("flydsl.dialects")
    context = ir.Context()
    # A compile is one module at a time: the thread pool would only cost memory and start-up.
    context.enable_multithreading(False)
    state = ContextState()
    _load_missing(context, state)
    setattr(context, _ATTRIBUTE, state)
    return context


def thread_context() -> ir.Context:
    """Return this thread's reusable context, with dialects registered since then loaded too.

    Modules of one compile must not outlive it by much: types and attributes stay in the context.
    """
    context = getattr(_LOCAL, "context", None)
    if context is None:
        context = _LOCAL.context = new_context()
    else:
        state = context_state(context)
        if len(state.loaded) != len(_SOURCES):
            _load_missing(context, state)
    return context


def context_state(context: ir.Context | None = None) -> ContextState:
    """Return the caches of `context` (default: the current one).

    Raises:
        CompilerBug: There is no current context, or `new_context` did not make it.
    """
    if context is None:
        from flydsl.mlir import ir

        context = ir.Context.current
    state = context.__dict__.get(_ATTRIBUTE) if context is not None else None
    if state is None:
        raise CompilerBug(
            "Fly IR is built outside a context of flydsl.mlir.new_context()", code="FLY-B301"
        )
    found: ContextState = state
    return found
