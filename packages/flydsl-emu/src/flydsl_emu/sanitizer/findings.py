"""What the sanitizer reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = ["CHECK_OF", "Finding", "Place", "SanitizerReport"]

CHECK_OF = {
    "FLY-U731": "wait",
    "FLY-U732": "wait",
    "FLY-U733": "race",
    "FLY-U734": "init",
    "FLY-U735": "oob",
    "FLY-U736": "barrier",
    "FLY-U737": "barrier",
}
"""The check that each finding code belongs to."""


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a finding.

    Attributes:
        pc: Byte offset of the instruction in its kernel.
        instruction: Its text.
        source: ``file:line``, or None without a line table.
        workgroup: Coordinates of the workgroup; None for findings of the static checks.
        wave: Wave of the workgroup, or -1.
        lane: Lane of the wave, or -1.
    """

    pc: int
    instruction: str
    source: str | None = None
    workgroup: tuple[int, int, int] | None = None
    wave: int = -1
    lane: int = -1

    def __str__(self) -> str:
        text = f"pc +{self.pc:#x}: {self.instruction}"
        if self.workgroup is not None:
            text += f" [workgroup {self.workgroup}, wave {self.wave}"
            text += f", lane {self.lane}]" if self.lane >= 0 else "]"
        return text if self.source is None else f"{text} at {self.source}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One hazard.

    Attributes:
        code: Stable code, see `flydsl_emu.codes`.
        kernel: Kernel name.
        message: What happens.
        place: The instruction at which it shows.
        other: The other side: the access that a race is with, the instruction whose result is
            read too early; None when there is none.
        hint: What to change.
    """

    code: str
    kernel: str
    message: str
    place: Place
    other: Place | None = None
    hint: str = ""

    @property
    def check(self) -> str:
        """The check that made the finding: ``wait``, ``race``, ``init``, ``oob``, ``barrier``."""
        return CHECK_OF[self.code]

    def __str__(self) -> str:
        lines = [f"{self.code} {self.kernel}: {self.message}", f"    {self.place}"]
        if self.other is not None:
            lines.append(f"    {self.other}")
        if self.hint:
            lines.append(f"    change: {self.hint}")
        return "\n".join(lines)


@dataclass(slots=True)
class SanitizerReport:
    """The findings of a block of launches, or of a code object.

    Attributes:
        findings: In the order in which they were made; one per code and pair of instructions.
    """

    findings: list[Finding]

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        if not self.findings:
            return "no findings"
        return "\n".join(str(f) for f in self.findings)

    def add(self, findings: Sequence[Finding]) -> None:
        """Append findings that are not there yet."""
        known = {_key(f) for f in self.findings}
        for finding in findings:
            if _key(finding) not in known:
                known.add(_key(finding))
                self.findings.append(finding)

    def to_json(self, indent: int | None = None) -> str:
        """Return the findings as a JSON array of objects with the attributes of `Finding`."""
        entries = [{"check": f.check, **asdict(f)} for f in self.findings]
        return json.dumps(entries, indent=indent)


def _key(finding: Finding) -> tuple[str, str, int, int]:
    other = -1 if finding.other is None else finding.other.pc
    return finding.code, finding.kernel, finding.place.pc, other
