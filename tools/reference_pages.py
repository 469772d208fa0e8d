"""Generate the pages of ``docs/`` that list what the code declares.

``python tools/reference_pages.py`` writes them; a test fails while they differ from the code. The
pages are ``docs/diagnostics.md`` (error codes), ``docs/environment.md`` (settings),
``docs/dialect.md`` (types and operations), ``docs/names.md`` (what ``fx`` holds) and
``docs/matrix-instructions.md`` (what AMD GPUs multiply with; see `matrix_page`). A package
declares codes and settings in its modules ``codes`` (``CODES``) and ``settings``.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from matrix_page import matrix_page

from flydsl import diagnostics
from flydsl.config import Setting, catalogue
from flydsl.dialects import definition

__all__ = ["main", "pages"]

ROOT = Path(__file__).resolve().parents[1]
PLUGIN_PACKAGES = (
    "flydsl_rocdl",
    "flydsl_emu",
    "flydsl_kernels.attention",
    "flydsl_kernels.gemm",
    "flydsl_kernels.moe",
    "flydsl_kernels.norm",
)

DIAGNOSTICS = """# Error codes

Every error that FlyDSL raises on purpose is a `FlyDSLError` with a stable code. The letter says
whose move it is, the number is looked up here. `str(error)` shows the message, your line, the
offending value, what is allowed and what to do next; the attributes `code`, `location`, `value`,
`allowed` and `hint` hold the same.

| letter | class | meaning |
|---|---|---|
| U | `UserError` | your code |
| T | `TargetError` | this architecture, device or toolchain cannot |
| C | `ConfigError` | this kernel configuration cannot |
| B | `CompilerBug` | ours: please report it |

Where Python has a built-in exception for the mistake, the error is one of those as well:
`UserTypeError` is a `TypeError`, `UserValueError` a `ValueError`, `UserIndexError` an `IndexError`,
and so on.

Warnings go through `warnings` with a category that derives from
`flydsl.diagnostics.FlyDSLWarning`.

This page is generated from the code by `tools/reference_pages.py`.
"""

ENVIRONMENT = """# Environment variables

Settings that change the generated code are read once per compile, the others when they are needed.
An unusable value is an error that names the variable and what is allowed, at the first call that
compiles or finds something on disk, whether or not it needs the setting. `flydsl doctor` lists the
variables that are set, with a remark on each that nothing reads.

`flydsl.config.scope` overrides settings for a block of code without touching the environment:

```python
from flydsl.config import scope

with scope(FLYDSL_VERIFY=True):
    ...  # kernels that are compiled here are verified after every pass
```

Aliases are names that other tools and existing scripts use; the first name that is set wins.

This page is generated from the code by `tools/reference_pages.py`.
"""

DIALECT = """# The Fly dialect

The intermediate representation of layout algebra, tensors and atoms. It is defined at run time
through IRDL, so it needs no build of MLIR; its operations print in generic form. The definition,
from which this page is generated (`tools/reference_pages.py`), is `flydsl.dialects.definition`;
builders and type inference are in `flydsl.dialects`.

Layout-like parameters are strings in the notation of the [layout algebra](layout-algebra.md). A
dynamic leaf is `?`; `?{i64}` is 64 bits wide, `?{div=n}` a known multiple of n. The operands that
supply dynamic leaves come in pre-order, all i32 leaves first, then all i64.

An operand marked `?` is optional, `*` any number of values. A pure operation has no effect: it may
be folded, merged with an equal one, or dropped.
"""

NAMES = """# The names of fx

What `import flydsl.expr as fx` offers, by subject. A name is documented where it is defined:
`help(fx.copy)`. Namespaces such as `fx.rocdl` come from plugins. Names that only existing kernels
use, such as `fx.T`, still work and say what to write instead; they are listed at the end.

This page is generated from the code by `tools/reference_pages.py`.
"""

LEFT_OUT: Mapping[str, str] = {
    "assume": "it has no effect",
    "decomposition": "leaves are taken apart by `unpack`",
    "extract_aligned_pointer_as_index": "`ptrtoint` does it",
    "get_leaves": "leaves are taken apart by `unpack`",
    "make_fragment_like": "`make_fragment_layout_like` and `memref_alloca`",
    "mma.make_fragment": "built from the partition's shape in Python",
}
"""Operations of other implementations of the dialect that ours does without, and why."""

RENAMED = "`.` inside an operation's name is `_` here: `fly.memref_load`, `fly.ptr_store`."


def _optional(module: str) -> ModuleType | None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return importlib.import_module(module) if found else None


def _distribution(package: str) -> str:
    return package.replace("_", "-").replace(".", "-")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in r) + " |\n" for r in lines
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].removesuffix(".")


def diagnostics_page() -> str:
    """Return ``docs/diagnostics.md``.

    Raises:
        ValueError: Two packages give one code different meanings.
    """
    sections = [("flydsl-core", diagnostics.CODES)]
    for package in PLUGIN_PACKAGES:
        codes = getattr(_optional(f"{package}.codes"), "CODES", {})
        sections.append((_distribution(package), codes))
    seen: dict[str, str] = {}
    text = DIAGNOSTICS
    for title, codes in sections:
        clash = sorted(set(seen) & set(codes))
        if clash:
            raise ValueError(f"{title} and {seen[clash[0]]} both define {', '.join(clash)}")
        seen |= dict.fromkeys(codes, title)
        rows = ((f"`{code}`", _sentence(meaning)) for code, meaning in sorted(codes.items()))
        text += f"\n## {title}\n\n" + _table(("code", "meaning"), rows)
    return text


def environment_page() -> str:
    """Return ``docs/environment.md``."""
    importlib.import_module("flydsl.config.core")
    # By the module that declares them: which were imported before this runs must not matter.
    owned: dict[str, set[str]] = {}
    for package in PLUGIN_PACKAGES:
        module = _optional(f"{package}.settings")
        values = vars(module).values() if module is not None else ()
        owned[package] = {value.name for value in values if isinstance(value, Setting)}
    declared = catalogue()
    of_plugins = set().union(*owned.values())
    owned = {"flydsl-core": set(declared) - of_plugins, **owned}
    text = ENVIRONMENT
    for package, names in owned.items():
        table = _settings_table({name: declared[name] for name in names})
        text += f"\n## {_distribution(package)}\n\n" + table
    return text


def _settings_table(declared: Mapping[str, Setting[Any]]) -> str:
    if not declared:
        return "It has none.\n"
    rows = []
    for name, item in sorted(declared.items()):
        aliases = ", ".join(f"`{alias}`" for alias in item.aliases)
        default = _default(item.default)
        rows.append((f"`{name}`", aliases, item.parser.accepts, default, _sentence(item.help)))
    return _table(("variable", "aliases", "accepts", "default", "meaning"), rows)


def _default(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    # Pages must not depend on whose machine wrote them.
    return f"`{value}`".replace(str(Path.home()), "~")


def dialect_page() -> str:
    """Return ``docs/dialect.md``."""
    types = (
        (f"`!fly.{name}`", ", ".join(parts)) for name, parts in sorted(definition.TYPES.items())
    )
    text = DIALECT + "\n## Types\n\n" + _table(("type", "parameters"), types)
    rows = []
    for name, op in sorted(definition.OPS.items()):
        cells = (op.operands, op.attributes, op.results)
        pure = "yes" if op.pure else "no"
        rows.append((f"`fly.{name}`", *(" ".join(f"`{c}`" for c in cell) for cell in cells), pure))
    head = ("operation", "operands", "attributes", "results", "pure")
    text += "\n## Operations\n\n" + _table(head, rows)
    text += f"\n## Left out\n\n{RENAMED}\n\n"
    left_out = ((f"`{name}`", _sentence(reason)) for name, reason in LEFT_OUT.items())
    return text + _table(("operation", "instead"), left_out)


def _first_line(text: str | None) -> str:
    return _sentence((text or "").strip().partition("\n")[0])


def _home(name: str, value: object, modules: Iterable[ModuleType]) -> ModuleType:
    """Return the module that defines a name of ``fx``."""
    own = getattr(value, "__module__", "")
    exporting = [module for module in modules if name in module.__all__]
    for module in exporting:
        if module.__name__ == own:
            return module
    return exporting[0]


def names_page() -> str:
    """Return ``docs/names.md``."""
    import flydsl.expr as fx
    from flydsl.expr.vector import VectorAlias

    walked = pkgutil.walk_packages(fx.__path__, "flydsl.expr.")
    expr = [importlib.import_module(info.name) for info in walked]
    modules = [
        m for m in (*expr, importlib.import_module("flydsl.layout")) if hasattr(m, "__all__")
    ]
    subjects: dict[str, list[tuple[str, str]]] = {}
    for name in fx.__all__:
        value = getattr(fx, name)
        if isinstance(value, ModuleType):
            subjects.setdefault("Modules", []).append((name, _first_line(value.__doc__)))
            continue
        home = _home(name, value, modules)
        title = re.split(r"[.:] |:$", _first_line(home.__doc__))[0]
        if isinstance(value, VectorAlias):
            title, summary = "Vector types", f"{value.lanes} x `{value.dtype.__name__}`"
        else:
            summary = _first_line(value.__doc__)
        subjects.setdefault(title, []).append((name, summary))
    text = NAMES
    for title, rows in sorted(subjects.items()):
        heading = title.replace("`", "").rstrip(" ,…")
        table = _table(("name", "meaning"), ((f"`{name}`", meaning) for name, meaning in rows))
        text += f"\n## {heading}\n\n{table}"
    return text + _legacy_tables()


def _legacy_tables() -> str:
    from flydsl.compat import LEGACY_PATHS
    from flydsl.compat.names import LEGACY

    names = (
        (f"`{module.replace('flydsl.expr', 'fx')}.{name}`", instead)
        for module, found in LEGACY.items()
        for name, (_, instead) in found.items()
    )
    paths = ((f"`{path}`", instead) for path, instead in LEGACY_PATHS.items())
    head = ("name", "write")
    text = "\n## Names of existing kernels\n\n"
    text += "Each warns with a `DeprecationWarning` where it is used.\n\n"
    return text + _table(head, names) + "\n" + _table(("module", "use"), paths)


def pages() -> dict[Path, str]:
    """Return the text of every generated page by its path."""
    docs = ROOT / "docs"
    return {
        docs / "diagnostics.md": diagnostics_page(),
        docs / "dialect.md": dialect_page(),
        docs / "environment.md": environment_page(),
        docs / "matrix-instructions.md": matrix_page(),
        docs / "names.md": names_page(),
    }


def main() -> int:
    """Write the pages; return 0."""
    for path, text in pages().items():
        path.write_text(text, "utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
