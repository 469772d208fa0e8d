"""Private names: ``__x`` in a class ``C`` means ``_C__x``, in rewritten code as in Python's."""

from __future__ import annotations

import ast

__all__ = ["mangle", "mangled"]


def mangled(name: str, owner: str) -> str:
    """Return what a name means in a class.

    Args:
        name: As it is written.
        owner: Name of the class.
    """
    stripped = owner.lstrip("_")
    if not stripped or not name.startswith("__") or name.endswith("__"):
        return name
    return f"_{stripped}{name}"


def mangle(function: ast.FunctionDef, qualname: str) -> None:
    """Replace the private names in a function that is defined in a class, in place.

    Args:
        function: The ``def``.
        qualname: Qualified name of its code, which tells the class.
    """
    parts = qualname.split(".")[:-1]
    while parts and parts[-1] == "<locals>":
        del parts[-2:]
    if parts:
        _Mangler(parts[-1]).visit(function)


class _Mangler(ast.NodeVisitor):
    """Replaces names; those in a class inside are left to that class."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        node.name = mangled(node.name, self._owner)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)

    def generic_visit(self, node: ast.AST) -> None:
        for field in ("id", "attr", "arg", "name", "asname", "rest"):
            name = getattr(node, field, None)
            imported = isinstance(node, ast.alias) and field == "name" and "." in (name or "")
            # Python leaves the keywords of a call as they are written.
            if isinstance(name, str) and not imported and not isinstance(node, ast.keyword):
                setattr(node, field, mangled(name, self._owner))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [mangled(name, self._owner) for name in node.names]
        super().generic_visit(node)
