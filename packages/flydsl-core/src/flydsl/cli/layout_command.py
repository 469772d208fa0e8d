"""``flydsl layout``: what a layout is, and how it looks."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from flydsl.errors import UserValueError

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from flydsl.layout.drawing import DrawOptions

__all__ = ["add", "describe", "run"]

_MAX_TEXT = 4096
"""Elements; larger layouts are described without a text picture."""

_EXAMPLES = """examples:
  flydsl layout "((8,2),4):((1,32),8)" --svg out.svg
  flydsl layout "((4,8),4):((32,1),8)" --tile "(8,16)" --html out.html
  flydsl layout "S<3,3,3> o 0 o (16,64):(64,1)" --element-bits 16 --access-bits 128 --banks 32
"""


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "layout",
        help="describe and draw a layout",
        description="Describe and draw a layout, a composed layout or a swizzle.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", help="for example '(4,8):(1,4)' or 'S<3,0,3> o 0 o (8,8):(8,1)'")
    parser.add_argument("--svg", metavar="FILE", help="write a picture")
    parser.add_argument("--html", metavar="FILE", help="write a page that answers to the pointer")
    parser.add_argument("--json", action="store_true", help="print JSON, without a text picture")
    parser.add_argument("--no-draw", action="store_true", help="leave out the text picture")
    parser.add_argument(
        "--color", action=argparse.BooleanOptionalAction, help="colour the text (default: a tty)"
    )
    parser.add_argument(
        "--tile", metavar="SHAPE", help="draw a (thread, value) layout on a tile of that shape"
    )
    parser.add_argument("--element-bits", type=int, metavar="N", help="bits of an element")
    parser.add_argument("--access-bits", type=int, metavar="N", help="bits that a lane accesses")
    parser.add_argument("--access", metavar="LAYOUT", help="(lane, element) to linear coordinate")
    parser.add_argument("--lanes", type=int, metavar="N", help="lanes that one pass serves")
    banks = parser.add_mutually_exclusive_group()
    banks.add_argument(
        "--banks", type=int, metavar="N", help="banks of shared memory, 4 bytes each"
    )
    banks.add_argument("--target", metavar="NAME", help="take the number of banks from a target")
    parser.set_defaults(run=run)


def describe(value: Any) -> dict[str, Any]:
    """Return what is known of a parsed layout, as JSON-ready values.

    Numbers are None when they are known only at run time; a swizzle or a tuple has none.
    """
    from flydsl import layout as fl

    out: dict[str, Any] = {"text": fl.to_text(value), "kind": type(value).__name__}
    if isinstance(value, fl.Layout | fl.ComposedLayout | fl.CoordTensor):
        for name, function in (("size", fl.size), ("cosize", fl.cosize)):
            number = function(value)
            out[name] = number if isinstance(number, int) else None
        out |= {"rank": value.rank, "depth": value.depth}
    if isinstance(value, fl.Layout):
        out["coalesced"] = str(fl.coalesce(value))
    return out


def _options(args: argparse.Namespace) -> DrawOptions:
    from flydsl import layout as fl
    from flydsl.layout.drawing import DrawOptions

    banks = args.banks
    if args.target is not None:
        from flydsl.targets import create_target

        banks = create_target(args.target).shared_banks
        if not banks:
            raise UserValueError(
                "this target has no banked shared memory", code="FLY-U119", value=args.target
            )
    return DrawOptions(
        tile=None if args.tile is None else fl.parse(args.tile),
        element_bits=args.element_bits,
        banks=banks,
        access_bits=args.access_bits,
        access=None if args.access is None else fl.parse(args.access),  # type: ignore[arg-type]
        lanes=args.lanes,
    )


def run(args: argparse.Namespace) -> int:
    """Print the description and write the files asked for; return 0."""
    from flydsl import layout as fl
    from flydsl.layout.drawing import picture, render

    value = fl.parse(args.text)
    found = describe(value)
    options = _options(args)
    text = ""
    shown = not (args.json or args.no_draw) and _drawable(value, found, options)
    if args.svg or args.html or shown:
        color = sys.stdout.isatty() if args.color is None else args.color
        text = render(picture(value, options), svg=args.svg, html=args.html, color=color)
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    for name, fact in found.items():
        print(f"{name}: {'known at run time' if fact is None else fact}")
    if shown:
        print(f"\n{text}")
    return 0


def _drawable(value: Any, found: dict[str, Any], options: DrawOptions) -> bool:
    """Return whether to show a text picture: small ones, and whatever has drawing options."""
    from flydsl.layout import Swizzle
    from flydsl.layout.drawing import DrawOptions

    if options != DrawOptions():
        return True
    return isinstance(value, Swizzle) or 0 < (found.get("size") or 0) <= _MAX_TEXT
