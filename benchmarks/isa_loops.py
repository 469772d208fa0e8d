"""The hot loop of a kernel's assembly: what it executes, and how `llvm-mca` schedules it.

The hot loop is the innermost loop with the most matrix instructions. A loop of several basic blocks
counts with the cheapest path from its head back to it that does not leave it, without the branches
that skip code when no lane is active. `llvm-mca` knows one wave, no memory latency and no other
waves: matrix share is the least number of passes of the matrix unit over its cycles, an upper bound
on what one wave reaches by issue and dependences alone.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from shutil import which

__all__ = ["Figures", "hot_loop"]

_LABEL = re.compile(r"^(\.L\w+):")
_BRANCH = re.compile(r"^s_c?branch\w*\s+(\.L\w+)")
_PASSES = {"32x32x8": 8, "32x32x16": 8, "16x16x16": 4, "16x16x32": 4, "32x32x64": 16}


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a loop.

    Attributes:
        instructions: Instructions of an iteration.
        matrix: Matrix instructions.
        vector: Other vector instructions.
        scalar: Scalar instructions but waits and barriers.
        lds_reads: Loads from LDS.
        lds_writes: Stores to LDS.
        memory: Vector memory instructions.
        waits: ``s_wait…``.
        barriers: ``s_barrier…``.
        passes: Passes of the matrix unit.
        cycles: Of `llvm-mca` per iteration, 0 without it.
    """

    instructions: int
    matrix: int
    vector: int
    scalar: int
    lds_reads: int
    lds_writes: int
    memory: int
    waits: int
    barriers: int
    passes: int
    cycles: float

    @property
    def share(self) -> float:
        """Passes over cycles."""
        return self.passes / self.cycles if self.cycles else 0.0


def _blocks(isa: str) -> list[tuple[str, list[str]]]:
    """Return the basic blocks of a kernel in order: (label, instructions)."""
    blocks: list[tuple[str, list[str]]] = [("entry", [])]
    for line in isa.splitlines():
        text = line.split(";")[0].strip()
        label = _LABEL.match(text)
        if label:
            blocks.append((label[1], []))
        elif text and not text.startswith(".") and not text.endswith(":"):
            blocks[-1][1].append(text)
            if text.startswith(("s_cbranch", "s_branch")):
                blocks.append((f"after{len(blocks)}", []))
            if text.startswith("s_endpgm"):
                blocks.append((f"end{len(blocks)}", []))
    return blocks


def _successors(blocks: Sequence[tuple[str, list[str]]]) -> list[list[int]]:
    index = {label: i for i, (label, _) in enumerate(blocks)}
    out: list[list[int]] = []
    for i, (_, body) in enumerate(blocks):
        last = body[-1] if body else ""
        target = _BRANCH.match(last)
        following = [] if last.startswith(("s_branch", "s_endpgm")) else [i + 1]
        if target and target[1] in index and not last.startswith("s_cbranch_execz"):
            following.append(index[target[1]])
        out.append([j for j in following if j < len(blocks)])
    return out


def _matrix(text: str) -> bool:
    return text.startswith(("v_mfma", "v_wmma", "v_smfmac", "v_swmmac"))


def _loops(blocks: Sequence[tuple[str, list[str]]], after: list[list[int]]) -> list[list[int]]:
    """Return for every backward branch the cheapest path from its target to it."""
    loops = []
    for tail, heads in enumerate(after):
        for head in heads:
            if head > tail:
                continue
            best: dict[int, tuple[int, list[int]]] = {head: (len(blocks[head][1]), [head])}
            for here in range(head, tail + 1):  # blocks lie in topological order within a loop
                if here not in best:
                    continue
                cost, path = best[here]
                for there in after[here]:
                    if head < there <= tail and there > here:
                        new = cost + len(blocks[there][1])
                        if there not in best or new < best[there][0]:
                            best[there] = (new, [*path, there])
            if tail in best:
                loops.append(best[tail][1])
    return loops


def hot_loop(
    isa: str, cpu: str, body: int = 0, *, dense: bool = False
) -> tuple[Figures, list[str]]:
    """Return the figures and the instructions of a kernel's hot loop.

    Args:
        isa: Assembly of one kernel.
        cpu: Architecture.
        body: Which of the loops with as many matrix instructions, shortest first.
        dense: Count loops with at least half as many as those with the most, and take the one of
            which matrix instructions are the largest part: the other has checks that are needed at
            the ends only.

    Raises:
        ValueError: There is no loop.
    """
    blocks = _blocks(isa)
    loops = _loops(blocks, _successors(blocks))
    bodies = [[text for i in path for text in blocks[i][1]] for path in loops]
    counted = [(sum(map(_matrix, lines)), -len(lines), lines) for lines in bodies]
    if not counted:
        raise ValueError("the kernel has no loop")
    most = max(count for count, *_ in counted)
    if dense:
        counted = [item for item in counted if 2 * item[0] >= most]
        return _figures(found := min(counted, key=lambda x: -x[1] / x[0])[2], cpu), found
    found = sorted((item for item in counted if item[0] == most), key=lambda x: -x[1])[body][2]
    return _figures(found, cpu), found


def _kind(text: str) -> str:
    name = text.split(maxsplit=1)[0]
    if _matrix(text):
        return "matrix"
    if name.startswith("v_"):
        return "vector"
    if name.startswith("s_wait"):
        return "waits"
    if name.startswith("s_barrier"):
        return "barriers"
    if name.startswith("ds_"):
        return "lds_writes" if "write" in name or "store" in name else "lds_reads"
    if name.startswith(("buffer_", "global_", "flat_", "scratch_")):
        return "memory"
    return "scalar"


def _figures(lines: list[str], cpu: str) -> Figures:
    kinds = Counter(map(_kind, lines))
    passes = 0
    for text in filter(_matrix, lines):
        passes += next((p for shape, p in _PASSES.items() if f"_{shape}_" in text), 0)
    fields = ("matrix", "vector", "scalar", "lds_reads", "lds_writes", "memory", "waits",
              "barriers")  # fmt: skip
    numbers = {name: kinds[name] for name in fields}
    return Figures(len(lines), passes=passes, cycles=_cycles(lines, cpu), **numbers)


def _cycles(lines: list[str], cpu: str, iterations: int = 100) -> float:
    """Return the cycles per iteration that `llvm-mca` finds, 0 where there is none."""
    tool = which("llvm-mca-22") or which("llvm-mca")
    if tool is None:
        return 0.0
    straight = [text for text in lines if not text.startswith(("s_cbranch", "s_branch"))]
    command = [tool, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={cpu}", f"-iterations={iterations}"]
    done = subprocess.run(command, input="\n".join(straight), capture_output=True, text=True,
                          check=True)  # fmt: skip
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    return int(found[1]) / iterations if found else 0.0
