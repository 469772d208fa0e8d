"""Locations of traced operations: the innermost user frame, looked up once per call site."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from flydsl.diagnostics import is_user_frame

__all__ = ["LocationTable"]


class LocationTable:
    """Maps ``(code object, instruction)`` to an MLIR location.

    Frames of the framework are recognised once per code object, so that finding a location costs a
    few dictionary look-ups per frame. Codes are keyed by identity and kept alive by the table.
    """

    __slots__ = ("_codes", "_file", "_keep", "_unknown")

    def __init__(self, ir: Any) -> None:
        self._codes: dict[int, dict[int, Any] | None] = {}
        self._keep: list[CodeType] = []
        self._file = ir.Location.file
        self._unknown: Any = None

    def here(self) -> Any:
        """Return the location of the innermost user frame; MLIR's unknown location if none.

        The caller is a function of ours, whose own frame need not be looked at.
        """
        frame: FrameType | None = sys._getframe(2)
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            try:
                sites = codes[id(code)]
            except KeyError:
                sites = self._classify(frame)
            if sites is not None:
                at = frame.f_lasti
                found = sites.get(at)
                if found is None:
                    found = sites[at] = self._locate(code, at)
                return found
            frame = frame.f_back
        return self._file("unknown", 0, 0)

    def _classify(self, frame: FrameType) -> dict[int, Any] | None:
        code = frame.f_code
        sites: dict[int, Any] | None = {} if is_user_frame(frame) else None
        self._codes[id(code)] = sites
        self._keep.append(code)
        return sites

    def _locate(self, code: CodeType, at: int) -> Any:
        line, column = _position(code, at)
        return self._file(code.co_filename, line, column + 1)


def _position(code: CodeType, at: int) -> tuple[int, int]:
    """Return line and zero-based column of an instruction (the code's first line if unknown)."""
    for index, (line, _, column, _) in enumerate(code.co_positions()):
        if index * 2 >= at:
            return line or code.co_firstlineno, column or 0
    return code.co_firstlineno, 0
