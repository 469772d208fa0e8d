"""What benchmarks print: figures, as text or as one JSON object a line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Figure", "add_json", "of_kernel", "show", "shown"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    Attributes:
        name: What was measured.
        value: The value.
        unit: Its unit.
        peer: The same of another project, measured in the same run or quoted, or None.
    """

    name: str
    value: float
    unit: str
    peer: float | None = None

    def line(self) -> str:
        """Return the figure as a JSON object; `ratio` is the value over the peer's."""
        found: dict[str, object] = {"name": self.name, "value": self.value, "unit": self.unit}
        if self.peer is not None:
            found["peer"] = self.peer
            found["ratio"] = self.value / self.peer if self.peer else None
        return json.dumps(found)


def of_kernel(kernel: str, figures: Mapping[str, Any], units: Mapping[str, str]) -> list[Figure]:
    """Return the numbers of a kernel that there are, with the reference's where there are some.

    Args:
        kernel: The kernel.
        figures: Numbers by their names; the reference's are called ``reference`` and the name.
        units: Which numbers, with their units.
    """
    return [
        Figure(f"{kernel}: {key}", value, unit, figures.get(f"reference {key}"))
        for key, unit in units.items()
        if (value := figures.get(key)) is not None
    ]


def shown(figures: Mapping[str, object]) -> str:
    """Return numbers that there are as a line of text."""
    return ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures.items()
        if value is not None
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Give a script the option ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def show(figures: Iterable[Figure], as_json: bool, text: str = "") -> None:
    """Print figures as lines of JSON, or else `text`, or else a plain table of them."""
    figures = list(figures)
    if as_json:
        for figure in figures:
            print(figure.line(), flush=True)
    elif text:
        print(text, flush=True)
    else:
        width = max((len(figure.name) for figure in figures), default=0)
        for figure in figures:
            peer = "" if figure.peer is None else f"   (peer {figure.peer:.4g})"
            print(f"{figure.name:<{width}} {figure.value:>12.4g} {figure.unit}{peer}", flush=True)
