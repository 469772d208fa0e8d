"""Random programs: nested control flow over run-time values agrees with plain Python."""

from __future__ import annotations

import linecache
import random

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config

X = (np.arange(64, dtype=np.int32) * 7919) % 23 - 7
NAMES = ["a", "b", "c"]


class Generator:
    """Writes the body of a function over small integers; every loop ends.

    Args:
        seed: Chooses the program.
        wide: Use tuples, dictionaries, guarded loads and nested helpers too.
    """

    def __init__(self, seed: int, wide: bool = True) -> None:
        self.rng = random.Random(seed)
        self.wide = wide
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.counter = 0

    def number(self) -> str:
        more = ["t[0]", "t[1]", 'd["p"]', 'd["q"]'] if self.wide else []
        return self.rng.choice(
            [*NAMES, *NAMES, "x[i]", "i", "l[0]", "l[1]", *more, *self.loops, "3", "-2"]
        )

    def value(self) -> str:
        op = self.rng.choice(["+", "-", "*", "//", "%"])
        left, right = self.number(), self.number()
        if op in ("//", "%"):
            right = str(self.rng.choice([2, 3, 5, -4]))
        text = f"({left} {op} {right})"
        if self.rng.random() < 0.2:
            text = f"({text} if {self.condition()} else {self.number()})"
        if self.rng.random() < 0.15:
            text = f"helper({text}, {self.number()})"
        if self.wide and self.rng.random() < 0.1:
            text = f"search(x, {text}, {self.number()})"
        if self.wide and self.rng.random() < 0.15:
            form = self.rng.choice(["({} or {})", "({} and {})", "min({}, {})", "max({}, {}, 3)"])
            text = form.format(text, self.number())
        return f"{text} % 97"

    def condition(self) -> str:
        op = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        text = f"{self.number()} {op} {self.number()}"
        roll = self.rng.random()
        if roll < 0.15:
            return f"{text} and {self.number()} < {self.number()}"
        if roll < 0.3:
            return f"not ({text} or x[({self.number()}) % 64] > 4)"
        if roll < 0.4:
            return f"{self.number()} < {self.number()} <= {self.number()}"
        if self.wide and roll < 0.55:
            # Only lanes for which the index is in range may load.
            index = f"{self.number()} * 9"
            return f"0 <= {index} < 64 and x[{index}] {op} {self.number()}"
        if self.wide and roll < 0.65:
            return f"({self.number()} if {text} else {self.number()}) {op} {self.number()}"
        return text

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, budget: int) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth, budget)

    def statement(self, depth: int, budget: int) -> None:
        kinds = ["assign"] * 3 + ["item", "augment", "store"]
        if self.wide:
            kinds += ["tuple", "entry"]
        if budget > 0:
            kinds += ["if", "if", "for", "while", *(["match"] if self.wide else [])]
        if self.loops:
            kinds += ["break", "continue"]
        if depth > 1:
            kinds.append("return")
        getattr(self, "write_" + self.rng.choice(kinds))(depth, budget)

    def write_assign(self, depth: int, budget: int) -> None:
        self.emit(depth, f"{self.rng.choice(NAMES)} = {self.value()}")

    def write_item(self, depth: int, budget: int) -> None:
        self.emit(depth, f"l[{self.rng.randrange(2)}] = {self.value()}")

    def write_tuple(self, depth: int, budget: int) -> None:
        swapped = f"t = (t[1], {self.value()})"
        unpacked = f"{NAMES[0]}, t = t[0], (t[1], {self.number()} % 97)"
        self.emit(depth, self.rng.choice([swapped, unpacked]))

    def write_entry(self, depth: int, budget: int) -> None:
        self.emit(depth, f'd["{self.rng.choice("pq")}"] = {self.value()}')

    def write_augment(self, depth: int, budget: int) -> None:
        self.emit(depth, f"{self.rng.choice(NAMES)} += {self.rng.choice(['1', 'x[i] % 5', 'i'])}")

    def write_store(self, depth: int, budget: int) -> None:
        self.emit(depth, f"out[i] = {self.value()}")

    def write_if(self, depth: int, budget: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.block(depth + 1, budget - 1)
        if self.rng.random() < 0.3:
            self.emit(depth, f"elif {self.condition()}:")
            self.block(depth + 1, budget - 1)
        if self.rng.random() < 0.5:
            self.emit(depth, "else:")
            self.block(depth + 1, budget - 1)

    def write_match(self, depth: int, budget: int) -> None:
        self.emit(depth, f"match {self.value()}:")
        numbers = self.rng.sample(range(6), 3)
        guard = f"case a if a > {self.rng.choice(['5', 'i', 'l[0]'])}:"
        heads = [f"case {numbers[0]}:", f"case {numbers[1]} | {numbers[2]}:", guard, "case _:"]
        chosen = [head for head in heads if self.rng.random() < 0.8]
        for head in chosen or heads:
            self.emit(depth + 1, head)
            self.block(depth + 2, budget - 1)

    def write_for(self, depth: int, budget: int) -> None:
        self.counter += 1
        name = f"k{self.counter}"
        bounds = self.rng.choice(["x[i] % 6", "-2, x[i] % 4", "x[i] % 5, -3, -1", "0, 7, 2"])
        self.emit(depth, f"for {name} in range({bounds}):")
        self.inside(depth, budget, name)

    def write_while(self, depth: int, budget: int) -> None:
        self.counter += 1
        name = f"w{self.counter}"
        self.emit(depth, f"{name} = 0")
        self.emit(
            depth, f"while {name} < {self.rng.choice(['4', 'x[i] % 6'])} and {self.condition()}:"
        )
        self.emit(depth + 1, f"{name} = {name} + 1")
        self.inside(depth, budget, name)

    def inside(self, depth: int, budget: int, name: str) -> None:
        self.loops.append(name)
        self.block(depth + 1, budget - 1)
        self.loops.pop()
        if self.rng.random() < 0.25:
            self.emit(depth, "else:")
            self.block(depth + 1, budget - 1)

    def write_break(self, depth: int, budget: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.emit(depth + 1, "break")

    def write_continue(self, depth: int, budget: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.emit(depth + 1, "continue")

    def write_return(self, depth: int, budget: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.emit(depth + 1, f"out[i] = {self.value()}")
        self.emit(depth + 1, "return")

    def source(self) -> str:
        self.emit(1, "a = x[i]")
        self.emit(1, "b = i")
        self.emit(1, "c = 1")
        self.emit(1, "l = [x[i] + 2, 3]")
        if self.wide:
            self.emit(1, "t = (x[i] % 3, i)")
            self.emit(1, 'd = {"p": 5, "q": x[i]}')
        for _ in range(4):
            self.statement(1, 3)
        more = ' + 17 * t[0] + 19 * t[1] + 23 * d["p"] + 29 * d["q"]' if self.wide else ""
        self.emit(1, "out[i] = a + 3 * b + 7 * c + 11 * l[0] + 13 * l[1]" + more)
        helper = [
            "def helper(p, q):",
            "    if p > q:",
            "        return p - q",
            "    for h in range(3):",
            "        if p + h == q:",
            "            return h",
            "    return q",
        ]
        search = [
            "",
            "def search(x, p, q):",
            "    found = q",
            "    for s in range(p % 7):",
            "        if x[s] == q % 5 or helper(s, q) > 4:",
            "            found = found + s",
            "            break",
            "    else:",
            "        found = found - 1",
            "    return found",
        ]
        extra = search if self.wide else []
        return "\n".join([*helper, *extra, "", "def body(i, x, out):", *self.lines, ""])


def program(seed: int, wide: bool = True):
    """Return the body of a random program, and its source."""
    source = Generator(seed, wide).source()
    return compiled(source, f"<program {seed} {wide}>")["body"], source


def compiled(source: str, filename: str):
    """Return the names that the source defines; the frontend can read it."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    space = {"fx": fx, "__name__": "flydsl_kernels.generated"}
    exec(compile(source, filename, "exec"), space)
    return space


def launch_all(seeds: range, bodies: list, outs: list) -> None:
    """Run every body in a kernel of its own; one launcher, so that they are compiled together."""
    names = [f"k{seed}" for seed in seeds]
    parameters = ", ".join(f"{name}: fx.Tensor" for name in names)
    lines = []
    for name in names:
        lines += [f"def {name}(x: fx.Tensor, out: fx.Tensor):"]
        lines += [f"    body_{name}(fx.thread_idx.x, x, out)", ""]
    lines += [f"def launch(x: fx.Tensor, {parameters}):"]
    lines += [f"    kernel_{name}(x, {name}).launch(grid=1, block=64)" for name in names]
    space = compiled("\n".join([*lines, ""]), f"<launcher {seeds}>")
    for name, body in zip(names, bodies, strict=True):
        space[f"body_{name}"] = body
        space[f"kernel_{name}"] = flyc.kernel(space[name])
    flyc.jit(space["launch"])(X, *outs)


def check(seeds: range) -> None:
    """Compare programs on the device with the same programs run by Python, lane by lane."""
    programs = [program(seed) for seed in seeds]
    outs = [np.zeros(64, dtype=np.int32) for _ in programs]
    launch_all(seeds, [body for body, _ in programs], outs)
    for seed, (body, source), out in zip(seeds, programs, outs, strict=True):
        want = np.zeros(64, dtype=np.int32)
        for lane in range(64):
            body(lane, X, want)
        if not np.array_equal(out, want):
            lanes = np.flatnonzero(out != want)
            pytest.fail(f"seed {seed}: lanes {lanes}: {out} is not {want}\n{source}", pytrace=False)


def batches(first: int, count: int, size: int):
    """Return ranges of seeds, in turn for wavefronts of 64 and of 32 lanes."""
    starts = range(first, first + count, size)
    return [
        pytest.param(range(start, start + size), ("gfx942", "gfx1100")[n % 2], id=f"{start}")
        for n, start in enumerate(starts)
    ]


@pytest.mark.parametrize(("seeds", "arch"), batches(0, 300, 15))
def test_random_programs(seeds, arch):
    with config.scope(FLYDSL_TARGET=arch):
        check(seeds)


@pytest.mark.nightly
@pytest.mark.parametrize(("seeds", "arch"), batches(1000, 5000, 20))
def test_many_random_programs(seeds, arch):
    with config.scope(FLYDSL_TARGET=arch):
        check(seeds)


def test_a_scalar_that_lanes_take_out_of_a_loop_at_different_times(both):
    """LLVM 22.1 alone gets this program wrong, see `flydsl_rocdl.passes.leaving`."""
    body, _ = program(2902, wide=False)
    both(body, [X, np.zeros(64, dtype=np.int32)])
