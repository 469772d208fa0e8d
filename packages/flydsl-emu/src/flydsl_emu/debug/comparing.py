"""The first difference of two traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flydsl_emu.debug.steps import RegisterValue, Trace, TraceStep

__all__ = ["Divergence", "diff"]

Array = Any


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two traces part.

    Attributes:
        index: Step.
        reason: ``"instruction"``, ``"exec"``, ``"branch"``, ``"value"`` or ``"length"``.
        register: Register whose values differ, or empty.
        lanes: Lanes whose values differ (0 for a scalar register).
        first, second: What the traces have: values by lane, masks, texts or lengths.
        step: The step as text, from the first trace that has it.
        source: Source line as text, or empty.
    """

    index: int
    reason: str
    register: str
    lanes: tuple[int, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    step: str
    source: str

    def to_json(self) -> str:
        """Return the divergence as JSON text."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        place = f" at {self.source}" if self.source else ""
        lines = [f"step {self.index}{place}: {self.reason} differs", f"  {self.step}"]
        if self.register:
            for lane, a, b in list(zip(self.lanes, self.first, self.second, strict=True))[:8]:
                lines.append(f"  {self.register} lane {lane}: {a} against {b}")
            if len(self.lanes) > 8:
                lines.append(f"  and {len(self.lanes) - 8} more lanes")
        else:
            lines.append(f"  {', '.join(self.first)} against {', '.join(self.second)}")
        return "\n".join(lines)


def diff(
    first: Trace, second: Trace, *, ignore: Callable[[TraceStep], bool] | None = None
) -> Divergence | None:
    """Return the first difference of two traces, or None when they agree.

    Compared are the instructions, EXEC, branches, and what executing lanes wrote. Values that are
    addresses of the same byte of the same buffer count as equal, whole or in 32-bit halves, so that
    traces of two calls with different tensors can be compared.

    Args:
        first: A trace.
        second: Another trace.
        ignore: Steps (of the first trace) whose values are not compared.
    """
    addresses = _Addresses(first, second)
    for a, b in zip(first.steps, second.steps, strict=False):
        found = _compare(a, b, addresses, ignore is not None and ignore(a))
        if found is not None:
            return found
    if len(first) == len(second):
        return None
    at = min(len(first), len(second))
    longer = first if len(first) > len(second) else second
    lengths = (f"{len(first)} steps",), (f"{len(second)} steps",)
    return _divergence(longer[at], "length", *lengths)


def _divergence(
    step: TraceStep,
    reason: str,
    first: tuple[str, ...],
    second: tuple[str, ...],
    register: str = "",
    lanes: tuple[int, ...] = (),
) -> Divergence:
    source = "" if step.source is None else str(step.source)
    text = f"+{step.pc:#x}  {step.text}"
    return Divergence(step.index, reason, register, lanes, first, second, text, source)


def _compare(
    a: TraceStep, b: TraceStep, addresses: _Addresses, values_ignored: bool
) -> Divergence | None:
    if (a.pc, a.text) != (b.pc, b.text):
        texts = [f"+{s.pc:#x} {s.text}" for s in (a, b)]
        return _divergence(a, "instruction", (texts[0],), (texts[1],))
    if a.exec != b.exec:
        return _divergence(a, "exec", (f"{a.exec:#x}",), (f"{b.exec:#x}",))
    if not values_ignored:
        for x, y in zip(a.writes, b.writes, strict=True):
            lanes = _different(x, y, a.exec, addresses)
            if lanes:
                shown = [tuple(f"{r.as_integer(n):#x}" for n in lanes) for r in (x, y)]
                return _divergence(a, "value", shown[0], shown[1], x.name, lanes)
    if a.taken != b.taken:
        went = ["taken" if s.taken else "not taken" for s in (a, b)]
        return _divergence(a, "branch", (went[0],), (went[1],))
    return None


def _different(
    x: RegisterValue, y: RegisterValue, exec_mask: int, addresses: _Addresses
) -> tuple[int, ...]:
    if np.array_equal(x.values, y.values):
        return ()
    same = addresses.equal(x.values, y.values)
    lanes = np.flatnonzero(~same)
    if x.scalar:
        return tuple(int(n) for n in lanes)
    return tuple(int(n) for n in lanes if exec_mask >> int(n) & 1)


class _Addresses:
    """The buffers of two launches, matched by position."""

    def __init__(self, first: Trace, second: Trace) -> None:
        self._pairs = [
            (np.uint64(a), np.uint64(b), np.uint64(min(size, other)))
            for (_, a, size), (_, b, other) in zip(first.buffers, second.buffers, strict=False)
            if a != b
        ]

    def equal(self, x: Array, y: Array) -> Array:
        """Return per lane whether ``[register, lane]`` dwords agree up to addresses."""
        same = x == y
        for k in range(len(x)):
            if k + 1 < len(x):
                wide = [z[k].astype(np.uint64) | z[k + 1].astype(np.uint64) << 32 for z in (x, y)]
                for a, b, size in self._pairs:
                    inside = (wide[0] - a == wide[1] - b) & (wide[0] - a <= size)
                    same[k] |= inside
                    same[k + 1] |= inside
            for a, b, size in self._pairs:
                same[k] |= self._halves(x[k], y[k], a, b, size)
        return same.all(axis=0)

    @staticmethod
    def _halves(x: Array, y: Array, a: Any, b: Any, size: Any) -> Array:
        """Return where `x` and `y` are the low halves of addresses of one byte, or high halves."""
        low_x = (x - np.uint32(a & 0xFFFFFFFF)).astype(np.uint64)
        low_y = (y - np.uint32(b & 0xFFFFFFFF)).astype(np.uint64)
        high_x, high_y = np.uint32(a >> 32), np.uint32(b >> 32)
        highs = (x - high_x <= size >> 32) | (x - high_x == 1)
        highs &= (y - high_y <= size >> 32) | (y - high_y == 1)
        return ((low_x == low_y) & (low_x <= size)) | highs
