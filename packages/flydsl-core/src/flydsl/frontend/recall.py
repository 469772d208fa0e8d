"""What a scan has found, kept on disk: later processes prove it instead of scanning again.

A *recipe* (`flydsl.frontend.recipes`) lists the steps of a scan: where each function, class and
value is found from the ones before. A `flydsl.frontend.replay.Replay` takes the same steps and
collects what the scan looked at: code objects and plain values as they are, of others what their
content hashes to, and which names lead nowhere. If all that hashes to what the recipe says, a scan
would find the same, and so its digest is known.

Code counts with its positions here, so that one hash over all of it does. That a recipe does not
fit, because the program was moved or changed, only means that it is scanned, and the recipe written
again.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import types
from collections.abc import Sequence

from flydsl.caching import compiler_fingerprint, disk_cache, keep
from flydsl.config import core as settings
from flydsl.frontend import contents, dependencies, eligible, recipes, replay, scanning, watching
from flydsl.frontend.dependencies import Dependencies
from flydsl.frontend.recipes import Recipe, recipe_of
from flydsl.frontend.replay import Refused, Replay
from flydsl.frontend.scanning import Scan

__all__ = ["recall_classes", "recall_function"]

_FORMAT = 6
_FEW = 20
"""Looking at so many places takes less time than reading a recipe."""
_FAILURES = (Refused, LookupError, AttributeError, TypeError, ValueError, EOFError)


def recall_function(function: types.FunctionType) -> Dependencies:
    """Return what a function depends on, itself included; `Dependencies.entries` may be empty."""
    what = ("function", function.__module__, function.__qualname__)
    found = _recalled(what, (function,))
    if found is None:
        scan = Scan()
        scan.root(function)
        found = _scanned(scan, what, (function,))
    return found


def recall_classes(kinds: Sequence[type]) -> Dependencies:
    """Return the code of classes and what it depends on; `Dependencies.entries` may be empty."""
    names = tuple(
        str(getattr(kind, name, ""))
        for kind in kinds
        for name in ("__module__", "__qualname__", "__name__")
    )
    found = _recalled(("classes", *names), kinds)
    if found is None:
        scan = Scan()
        scan.classes(kinds)
        found = _scanned(scan, ("classes", *names), kinds)
    return found


def _recalled(what: tuple[str, ...], roots: Sequence[object]) -> Dependencies | None:
    """Return what a recipe proves; None without one that fits."""
    data = disk_cache().fetch(_key(what)) if settings.ENABLE_CACHE.get() else None
    if data is None:
        return None
    try:
        recipe = Recipe(*marshal.loads(data))
        repeated = Replay(recipe, roots)
        if repeated.proof() != recipe.proof:
            return None
    except _FAILURES:
        return None
    repeated.forget_reads(lambda: Recipe(*marshal.loads(data)).reads)
    return Dependencies((), (repeated.checks,), (repeated.functions,), (), recipe.digest)


def _scanned(scan: Scan, what: tuple[str, ...], roots: Sequence[object]) -> Dependencies:
    """Return what a scan finds, and keep its recipe."""
    found = Dependencies.of(scan)
    if found.portable and len(scan.steps) > _FEW and settings.ENABLE_CACHE.get():
        try:
            data = marshal.dumps(tuple(_proved(recipe_of(scan, found.digest), roots)))
        except _FAILURES:
            return found
        keep(_key(what), data, {"name": f"{what[-1]} (scan)", "target": ""})
    return found


def _proved(recipe: Recipe, roots: Sequence[object]) -> Recipe:
    """Return a recipe with the proof of what it leads to now."""
    repeated = Replay(recipe, roots)
    return recipe._replace(contents=tuple(repeated.contents), proof=repeated.proof())


def _key(what: tuple[str, ...]) -> str:
    text = repr((_FORMAT, sys.hexversion, compiler_fingerprint(()), _STATUS, what))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _own_status() -> list[tuple[int, int]]:
    """Return the sizes and times of what scans: an editable scan is not part of the fingerprint."""
    parts = (contents, dependencies, eligible, recipes, replay, scanning, watching)
    files = [str(part.__file__) for part in parts]
    try:
        return [(found.st_size, found.st_mtime_ns) for found in map(os.stat, (*files, __file__))]
    except OSError:  # in an archive, which is not editable
        return []


_STATUS = _own_status()
"""As the process has imported it."""
