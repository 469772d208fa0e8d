"""Draw the pictures of layouts in the documentation: ``python tools/layout_pictures.py``.

``tests/docs/test_layout_pictures.py`` fails when a committed picture differs from what is drawn.
"""

from __future__ import annotations

from pathlib import Path

from flydsl import layout as fl
from flydsl.dialects import atoms, tiled
from flydsl.dialects import fly_types as ft
from flydsl.dialects.pictures import tiled_picture
from flydsl.layout.drawing import DrawOptions, Picture, picture, to_svg
from flydsl_rocdl.atoms import MFMA

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"


def pictures() -> dict[str, Picture]:
    """Return the pictures by file name, without suffix."""
    tile, tv = fl.make_layout_tv(fl.make_layout((4, 4), (4, 1)), fl.make_layout((1, 4)))
    rows = fl.make_layout((8, 32), (32, 1))
    swizzled = fl.make_composed_layout(fl.Swizzle(3, 2, 3), rows)
    access = DrawOptions(banks=32, element_bits=32, access_bits=128)
    thread_tile, thread_tv = fl.make_layout_tv(
        fl.make_layout((16, 4), (4, 1)), fl.make_layout((1, 4))
    )
    copy = tiled.make_tiled_copy(
        ft.CopyAtomType(atoms.UniversalCopy(64), 16), thread_tv, thread_tile
    )
    mma = tiled.make_tiled_mma(
        ft.MmaAtomType(MFMA(16, 16, 16, "f16", "f16", "f32")), fl.make_layout((1, 1, 1))
    )
    plain = DrawOptions()
    return {
        "nested": picture(fl.make_layout(((8, 2), 4), ((1, 32), 8)), plain),
        "swizzle": picture(fl.Swizzle(3, 0, 3), plain),
        "thread-value": picture(tv, DrawOptions(tile=tile)),
        "tiled-copy": tiled_picture(copy, "source"),
        "mfma-a": tiled_picture(mma, "A"),
        "mfma-c": tiled_picture(mma, "C"),
        "banks": picture(
            fl.make_composed_layout(fl.Swizzle(3, 1, 3), fl.make_layout((16, 16), (16, 1))),
            DrawOptions(banks=32, element_bits=32),
        ),
        "conflicts": picture(rows, access),
        "no-conflicts": picture(swizzled, access),
    }


def main() -> None:
    """Write every picture to its file."""
    FOLDER.mkdir(exist_ok=True)
    for name, made in pictures().items():
        (FOLDER / f"{name}.svg").write_text(to_svg(made), encoding="utf-8")
        print(f"docs/pictures/{name}.svg")


if __name__ == "__main__":
    main()
