"""Which opcodes that kernels use have no meaning in the emulator.

``PYTHONPATH=tools python -m opcode_census [arch ...]`` prints, per architecture, the opcodes of
its census list (``packages/flydsl-emu/tests/data/census``) that the decode table or the semantics
lack; the exit status is 1 if there are any. A census list names what compiled kernels were seen to
use; ``--table`` takes all opcodes of the decode table instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from flydsl_emu.decode.table import load_table
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.control import END

__all__ = ["CENSUS", "base_name", "census", "undecodable", "without_meaning"]

CENSUS = Path(__file__).resolve().parents[1] / "packages/flydsl-emu/tests/data/census"
# What the engine does itself.
_BUILT_IN = END | {"s_barrier", "s_branch"}
_SUFFIXES = ("_e64_dpp", "_dpp", "_sdwa")


def census(arch: str) -> list[str]:
    """Return the opcodes that kernels for `arch` were seen to use, encoding suffixes removed."""
    lines = (CENSUS / f"{arch}.txt").read_text(encoding="ascii").split()
    return sorted({base_name(line) for line in lines})


def base_name(name: str) -> str:
    """Return an opcode without the suffix of a DPP or SDWA encoding."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def decodable(arch: str) -> set[str]:
    """Return the opcodes of the decode table of `arch`."""
    names = {entry.name for form in load_table(arch).values() for entry in form.values()}
    for prefix in ("v_mfma_", "v_wmma_"):
        scaled = {n for n in names if n.startswith(prefix) and n.endswith(("f8f6f4", "128_f4"))}
        names |= {n.replace(prefix, f"{prefix}scale_") for n in scaled}
    return names


def undecodable(arch: str) -> list[str]:
    """Return the census opcodes of `arch` that its decode table lacks."""
    return [name for name in census(arch) if name not in decodable(arch)]


def without_meaning(names: Iterable[str]) -> list[str]:
    """Return those of the opcodes that have no semantics; a dual one means its two halves."""
    return [
        name
        for name in names
        if name not in _BUILT_IN and find(name.replace("v_dual_", "v_")) is None
    ]


def main() -> int:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="opcode_census", description=__doc__)
    parser.add_argument("arch", nargs="*", help="architectures; all that have a list by default")
    parser.add_argument("--table", action="store_true", help="opcodes of the decode table instead")
    arguments = parser.parse_args()
    found = False
    for arch in arguments.arch or sorted(path.stem for path in CENSUS.glob("*.txt")):
        names = sorted(decodable(arch)) if arguments.table else census(arch)
        lacking = without_meaning(names)
        unknown = [] if arguments.table else undecodable(arch)
        found = found or bool(lacking or unknown)
        print(f"{arch}: {len(names)} opcodes, {len(unknown)} undecodable, {len(lacking)} unknown")
        for name in lacking:
            print(f"  {name}")
    return int(found)


if __name__ == "__main__":
    raise SystemExit(main())
