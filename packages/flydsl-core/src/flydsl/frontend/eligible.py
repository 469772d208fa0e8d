"""Which functions are rewritten, and the name by which rewritten code finds its runtime."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Set
from functools import cache
from itertools import pairwise
from opcode import opmap
from types import CodeType, FunctionType, ModuleType

from flydsl.diagnostics import is_framework_module

__all__ = [
    "RUNTIME",
    "is_user_class",
    "is_user_module",
    "nested_codes",
    "reads_outside",
    "rewritable",
]

RUNTIME = "_fly_rt"
"""Name by which rewritten code refers to `flydsl.frontend.runtime`."""

_FOREIGN = frozenset({"mlir", "numpy", "torch", "ml_dtypes", "pytest", "_pytest", "hypothesis"})

_OUTSIDE = frozenset(
    "environ getenv open globals locals eval exec vars __dict__ getattr import_module __import__ "
    "argv modules stdin input read_text read_bytes perf_counter time_ns urandom randint".split()
)
"""Names by which code reads what no scan can follow."""


def reads_outside(function: FunctionType, names: Set[str]) -> bool:
    """Return whether a function may read what a scan of the program does not find.

    Attributes of this project's own modules are no such thing, whatever their names.

    Args:
        function: The function.
        names: Global names and attributes in its code and in that of its inner functions.
    """
    found = names & _OUTSIDE
    codes = tuple(nested_codes(function.__code__))
    if found - {"getattr"} or any(map(_imports_others, codes)):
        return True
    # Patterns of classes read attributes that a class names, not the code.
    if any(opmap["MATCH_CLASS"] in code.co_code[::2] for code in codes):
        return True
    return bool(found) and any(_asks_others(code, function.__globals__) for code in codes)


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield code, and that of all functions, classes and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def _imports_others(code: CodeType) -> bool:
    """Return whether code imports what is neither ours, Python's, nor an array library's."""
    if opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return False
    import dis

    imported = (i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")
    return any(map(is_user_module, imported))


def _asks_others(code: CodeType, space: Mapping[str, object]) -> bool:
    """Return whether ``getattr`` is used for anything but ``getattr(<module of ours>..., ...)``."""
    if "getattr" not in code.co_names:
        return False
    import dis

    instructions = [i for i in dis.get_instructions(code) if i.opname != "PUSH_NULL"]
    for this, following in pairwise(instructions):
        if this.argval == "getattr":
            owner = space.get(str(following.argval))
            ours = isinstance(owner, ModuleType) and is_framework_module(owner.__name__)
            if not (this.opname == following.opname == "LOAD_GLOBAL" and ours):
                return True
    return False


def rewritable(function: FunctionType) -> bool:
    """Return whether a function is the user's own Python code."""
    module = function.__globals__.get("__name__")
    return is_user_module(module or "") and "__flydsl_internal__" not in function.__globals__


def is_user_class(kind: type) -> bool:
    """Return whether a class is neither ours, Python's, nor an array library's.

    Code that runs in a dictionary without a ``__name__`` makes classes that have no module, or say
    that theirs is ``builtins``.
    """
    module = getattr(kind, "__module__", None)
    if type(module) is str and module != "builtins":
        return is_user_module(module)
    # Some of Python's own have a descriptor of that name.
    return module != "builtins" or isinstance(vars(kind).get("__module__"), str)


@cache
def is_user_module(module: str) -> bool:
    """Return whether a module is neither ours, Python's, nor an array library's."""
    if is_framework_module(module):
        return False
    top = module.partition(".")[0]
    if module == "__main__" or top in _FOREIGN:
        return module == "__main__"
    return top not in sys.stdlib_module_names or _hides_python(top)


def _hides_python(top: str) -> bool:
    """Return whether a module that is called as one of Python's is another one, from elsewhere."""
    found = sys.modules.get(top)
    spec = getattr(found, "__spec__", None)
    file = getattr(spec, "origin", None) or getattr(found, "__file__", None)
    if file in (None, "built-in", "frozen"):
        return False
    # Packages that are installed beside Python's own are no program either.
    return not os.path.abspath(str(file)).startswith(os.path.dirname(os.__file__) + os.sep)
