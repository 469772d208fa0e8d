"""Command line of the table generator."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from decode_tables.generate import table_text

DATA = Path(__file__).resolve().parents[2] / "packages/flydsl-emu/src/flydsl_emu/decode/data"


def main() -> int:
    """Write or check tables; return 1 if a checked one differs."""
    parser = argparse.ArgumentParser(prog="decode_tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("arch", nargs="+", help="architectures, such as gfx1201")
    arguments = parser.parse_args()
    stale = 0
    for arch in arguments.arch:
        path = DATA / f"{arch}.txt"
        text = table_text(arch)
        if not arguments.check:
            path.write_text(text, encoding="ascii")
        elif path.read_text(encoding="ascii") != text:
            print(f"{path.name} is not what LLVM says", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
