"""Check the rules of the house that no off-the-shelf linter knows.

Run it from the repository root: ``python tools/check_budgets.py [path ...]``. It reads its limits
from ``[tool.budgets]`` in ``pyproject.toml``, prints one line per finding as ``path:line: rule:
message`` and exits with 1 when there are any.

To add a rule, write a function that takes a `Source` and yields `Finding` objects, and append it to
`RULES`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["RULES", "Budgets", "Finding", "Source", "check_paths", "check_text", "main"]

BANNED_MODULES = frozenset({"utils", "common", "helpers"})
STDLIB_MODULES = frozenset(sys.stdlib_module_names) - {"__future__", "__main__"}
ARCH_NAME = re.compile(r"\bgfx\d", re.IGNORECASE)
# Home and work directories of one machine; spelled in pieces so that this file passes its own rule.
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:ho" + r"me/\w|ro" + r"ot/|Us" + r"ers/\w|wo" + r"rk/)")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
ENVIRONMENT_NAMES = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})
TEXT_SUFFIXES = frozenset({".cfg", ".ini", ".json", ".md", ".mlir", ".py", ".sh", ".toml", ".txt"})


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits, as ``[tool.budgets]`` states them.

    Attributes:
        max_file_lines: Longest Python file.
        max_function_lines: Longest function, decorators excluded, docstring included.
        max_parameters: Most parameters of a function, ``self`` and ``cls`` excluded.
        alias_paths: Folders whose modules may have names of standard-library modules.
        arch_paths: Folders that may spell architecture names.
        environment_paths: Folders that may read the process environment.
        signature_paths: Folders of functions whose signatures other libraries prescribe: their
            keyword-only parameters do not count.
        launcher_paths: Files of launchers that existing programs call with all of their arguments
            in order: parameters do not count.
    """

    max_file_lines: int = 500
    max_function_lines: int = 80
    max_parameters: int = 8
    alias_paths: tuple[str, ...] = ()
    arch_paths: tuple[str, ...] = ()
    environment_paths: tuple[str, ...] = ()
    signature_paths: tuple[str, ...] = ()
    launcher_paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_file_lines", "max_function_lines", "max_parameters"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @classmethod
    def load(cls, pyproject: Path) -> Budgets:
        """Read the limits from a ``pyproject.toml``.

        Raises:
            TypeError: The table has a key that no rule reads.
        """
        table = tomllib.loads(pyproject.read_text("utf-8")).get("tool", {}).get("budgets", {})
        values: dict[str, Any] = {}
        for key, value in table.items():
            values[key.replace("-", "_")] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one line (one-based)."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class Source:
    """A file under test; `path` is relative to the repository root, with forward slashes."""

    path: PurePosixPath
    text: str
    tree: ast.Module | None
    budgets: Budgets

    @property
    def is_package_source(self) -> bool:
        """Whether the file is shipped: it lies under ``packages/<name>/src``."""
        return self.path.parts[:1] == ("packages",) and self.path.parts[2:3] == ("src",)

    def under(self, folders: Iterable[str]) -> bool:
        """Return whether the file is, or lies below, one of `folders`."""
        return any(self.path.is_relative_to(folder) for folder in folders)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node of the syntax tree; nothing for files that are not Python."""
        if self.tree is not None:
            yield from ast.walk(self.tree)

    def finding(self, line: int, rule: str, message: str) -> Finding:
        """Return a finding in this file."""
        return Finding(str(self.path), line, rule, message)


def file_length(source: Source) -> Iterator[Finding]:
    """Python files stay within ``max-file-lines``."""
    lines = source.text.count("\n")
    if source.tree is not None and lines > source.budgets.max_file_lines:
        limit = source.budgets.max_file_lines
        yield source.finding(limit, "file-length", f"{lines} lines; the budget is {limit}")


def functions(source: Source) -> Iterator[Finding]:
    """Functions stay within ``max-function-lines`` and ``max-parameters``."""
    for node in source.nodes():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > source.budgets.max_function_lines:
            limit = source.budgets.max_function_lines
            message = f"{node.name} has {length} lines; the budget is {limit}"
            yield source.finding(node.lineno, "function-length", message)
        keywords = not source.under(source.budgets.signature_paths)
        count = _parameter_count(node.args, keywords=keywords)
        launcher = source.under(source.budgets.launcher_paths)
        if count > source.budgets.max_parameters and not launcher:
            limit = source.budgets.max_parameters
            message = f"{node.name} has {count} parameters; the budget is {limit}: use a dataclass"
            yield source.finding(node.lineno, "parameters", message)


def _parameter_count(arguments: ast.arguments, *, keywords: bool) -> int:
    positional = [*arguments.posonlyargs, *arguments.args]
    if positional and positional[0].arg in {"self", "cls"}:
        positional = positional[1:]
    extra = sum(argument is not None for argument in (arguments.vararg, arguments.kwarg))
    return len(positional) + keywords * len(arguments.kwonlyargs) + extra


def star_imports(source: Source) -> Iterator[Finding]:
    """No ``from module import *``."""
    for node in source.nodes():
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield source.finding(node.lineno, "star-import", f"from {node.module} import *")


def module_names(source: Source) -> Iterator[Finding]:
    """No grab-bag modules, and none that shadows a standard-library module."""
    if source.tree is None or source.under(source.budgets.alias_paths):
        return
    name = source.path.parent.name if source.path.name == "__init__.py" else source.path.stem
    if name in BANNED_MODULES:
        yield source.finding(1, "module-name", f"{name!r} says nothing about its contents")
    if source.is_package_source and name in STDLIB_MODULES:
        yield source.finding(1, "module-name", f"{name!r} is a standard-library module")


def package_surface(source: Source) -> Iterator[Finding]:
    """A shipped package says what lives in it and lists what it exports."""
    if source.tree is None or not source.is_package_source or source.path.name != "__init__.py":
        return
    if not ast.get_docstring(source.tree):
        yield source.finding(1, "package-docstring", "the package does not say what lives here")
    if not any(_assigns_all(node) for node in source.tree.body):
        yield source.finding(1, "package-all", "the package has no __all__")


def _assigns_all(node: ast.stmt) -> bool:
    targets: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def environment_reads(source: Source) -> Iterator[Finding]:
    """Shipped code reads the process environment only in ``environment-paths``."""
    if not source.is_package_source or source.under(source.budgets.environment_paths):
        return
    for node in source.nodes():
        used = ""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = node.attr if node.value.id == "os" else ""
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            used = next((a.name for a in node.names if a.name in ENVIRONMENT_NAMES), "")
        if used in ENVIRONMENT_NAMES:
            message = f"os.{used}: ask flydsl.config for the setting"
            yield source.finding(getattr(node, "lineno", 1), "environment", message)


def arch_names(source: Source) -> Iterator[Finding]:
    """Shipped code spells architecture names only in ``arch-paths``; docstrings may."""
    if not source.is_package_source or source.under(source.budgets.arch_paths):
        return
    docstrings = {id(node) for node in _docstring_nodes(source)}
    for node in source.nodes():
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and ARCH_NAME.search(node.value):
            message = f"{node.value[:40]!r}: architecture names live in {source.budgets.arch_paths}"
            yield source.finding(node.lineno, "arch-name", message)


def _docstring_nodes(source: Source) -> Iterator[ast.expr]:
    for node in source.nodes():
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        # A bare string is documentation wherever it stands: after an assignment it describes it.
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def machine_paths(source: Source) -> Iterator[Finding]:
    """No file names a directory of the machine it was written on."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield source.finding(number, "machine-path", line.strip()[:80])


def unfinished_work(source: Source) -> Iterator[Finding]:
    """No comment or string announces work to be done."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if source.path.suffix != ".json" and UNFINISHED.search(line):
            yield source.finding(number, "unfinished", line.strip()[:80])


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    file_length,
    functions,
    star_imports,
    module_names,
    package_surface,
    environment_reads,
    arch_names,
    machine_paths,
    unfinished_work,
)
"""Every rule, in the order in which its findings are printed for a file."""


def check_text(path: str, text: str, budgets: Budgets) -> list[Finding]:
    """Return the findings for one file.

    Args:
        path: Path relative to the repository root, with forward slashes.
        text: The file's contents.
        budgets: The limits.
    """
    tree = None
    if path.endswith(".py"):
        try:
            tree = ast.parse(text, path)
        except SyntaxError as error:
            return [Finding(path, error.lineno or 1, "syntax", str(error.msg))]
    source = Source(PurePosixPath(path), text, tree, budgets)
    return [finding for rule in RULES for finding in rule(source)]


def check_paths(root: Path, paths: Iterable[str], budgets: Budgets) -> list[Finding]:
    """Return the findings for files given relative to `root`."""
    findings = []
    for path in sorted(paths):
        file = root / path
        if not file.is_file():
            continue
        if path.endswith(".py"):
            with tokenize.open(file) as stream:
                text = stream.read()
        else:
            text = file.read_text("utf-8")
        findings.extend(check_text(path, text, budgets))
    return findings


def _repository_files(root: Path) -> list[str]:
    """Return tracked files and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return listed.stdout.splitlines()
    # An unpacked source archive has no git: take every file outside hidden folders.
    found = (file.relative_to(root) for file in root.rglob("*") if file.is_file())
    return [f.as_posix() for f in found if not any(part.startswith(".") for part in f.parts[:-1])]


def _is_text(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix in TEXT_SUFFIXES or name.name in {"Makefile", "run"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the named files, or the whole repository; return the exit status."""
    root = Path(__file__).resolve().parents[1]
    budgets = Budgets.load(root / "pyproject.toml")
    chosen = list(sys.argv[1:] if arguments is None else arguments)
    paths = chosen or [path for path in _repository_files(root) if _is_text(path)]
    findings = check_paths(root, paths, budgets)
    for finding in findings:
        print(finding)
    print(f"{len(paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
