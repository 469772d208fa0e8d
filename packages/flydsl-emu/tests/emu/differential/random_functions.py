"""Random LLVM IR functions whose results are the same on every correct target.

A function takes a record of inputs, a record for its outputs and a cleared array of eight dwords,
all by pointer. Everything that
LLVM leaves undefined is avoided by construction: shift amounts and indices are masked, divisors
are made nonzero, float to integer conversions saturate, NaN bits never become integers, and no
operation is used whose rounding or signs of zero may differ.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["INPUT_BYTES", "OUTPUTS", "OUTPUT_BYTES", "Function", "make_function"]

INPUT_BYTES = 128
OUTPUTS = 24
OUTPUT_BYTES = 16 * OUTPUTS
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("half", "float", "double")
VECTORS = ("<2 x i16>", "<4 x i8>", "<2 x i32>", "<4 x i16>", "<2 x half>", "<2 x float>")
STORED = (*INTEGERS, *FLOATS, *VECTORS)
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
# Where a record holds inputs of each scalar type: (offset, count).
PLACES = {
    "i32": (0, 8),
    "i64": (32, 3),
    "float": (56, 6),
    "double": (80, 3),
    "half": (104, 6),
    "i16": (116, 4),
    "i8": (124, 4),
}
SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        body: Text of the body: blocks that read ``%in``, write ``%out``, use ``%local`` and end in
            ``ret void``.
        outputs: Type of each 16-byte output slot.
        declarations: Intrinsics that it calls.
    """

    body: str
    outputs: tuple[str, ...]
    declarations: frozenset[str]


def element_of(kind: str) -> tuple[int, str]:
    """Element count and type of a vector type."""
    count, _, element = kind[1:-1].split()
    return int(count), element


def intrinsic_suffix(kind: str) -> str:
    if kind.startswith("<"):
        count, element = element_of(kind)
        return f"v{count}{SUFFIX.get(element, element)}"
    return SUFFIX.get(kind, kind)


@dataclass
class Builder:
    """Writes one function; `values` maps types to the names in scope."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)
    count: int = 0
    block: str = "entry"
    depth: int = 0
    used: set[str] = field(default_factory=set)

    # Text ----------------------------------------------------------------------------------------
    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def number(self) -> int:
        """A number for the labels of one construct."""
        self.count += 1
        return self.count

    def emit(self, kind: str, text: str) -> str:
        result = self.name()
        self.lines.append(f"  {result} = {text}")
        self.values.setdefault(kind, []).append(result)
        return result

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def call(self, kind: str, function: str, *arguments: tuple[str, str]) -> str:
        types = ", ".join(t for t, _ in arguments)
        self.declarations.add(f"declare {kind} @{function}({types})")
        passed = ", ".join(f"{t} {x}" for t, x in arguments)
        return self.emit(kind, f"call {kind} @{function}({passed})")

    # Operands ------------------------------------------------------------------------------------
    def constant(self, kind: str) -> str:
        rng = self.rng
        if kind.startswith("<"):
            count, element = element_of(kind)
            parts = [self.constant(element) for _ in range(count)]
            if element == "half":
                # LLVM 22 takes a constant -0.0 in the high half for +0.0 (docs/kernels.md).
                parts = ["0.0" if x == "-0.0" else x for x in parts]
            return "<" + ", ".join(f"{element} {x}" for x in parts) + ">"
        if kind in BITS:
            bits = BITS[kind]
            if bits == 1:
                return rng.choice(("true", "false"))
            edges = (0, 1, -1, 2, 1 << (bits - 2), (1 << (bits - 1)) - 1, -(1 << (bits - 1)))
            return str(rng.choice((*edges, rng.randint(-100, 100), rng.getrandbits(bits - 1))))
        return rng.choice(("0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "-3.0", "1024.0", "0.0625"))

    def pick(self, kind: str) -> str:
        """A value of a type: usually one in scope, recent ones more often."""
        known = self.values.get(kind, ())
        if not known or self.rng.random() < 0.12:
            return self.constant(kind)
        if self.rng.random() < 0.6:
            chosen = known[-1 - min(int(self.rng.expovariate(0.4)), len(known) - 1)]
        else:
            chosen = self.rng.choice(known)
        self.used.add(chosen)
        return chosen

    def masked(self, kind: str, limit: int) -> str:
        """An index below `limit`, a power of two."""
        return self.emit(kind, f"and {kind} {self.pick(kind)}, {limit - 1}")

    # Integers ------------------------------------------------------------------------------------
    def integer(self, kind: str) -> str:
        rng, bits = self.rng, BITS[kind]
        action = rng.randrange(9)
        a, b = self.pick(kind), self.pick(kind)
        if action <= 2:
            operation = rng.choice(("add", "sub", "mul", "and", "or", "xor"))
            return self.emit(kind, f"{operation} {kind} {a}, {b}")
        if action == 3:
            amount = self.emit(kind, f"and {kind} {b}, {bits - 1}")
            return self.emit(kind, f"{rng.choice(('shl', 'lshr', 'ashr'))} {kind} {a}, {amount}")
        if action == 4:
            return self.divide(kind, a, b)
        if action == 5:
            name = rng.choice(("ctpop", "bitreverse", "umin", "umax", "smin", "smax"))
            if name in ("ctpop", "bitreverse"):
                return self.call(kind, f"llvm.{name}.{kind}", (kind, a))
            return self.call(kind, f"llvm.{name}.{kind}", (kind, a), (kind, b))
        if action == 6:
            name = rng.choice(("ctlz", "cttz", "abs"))
            return self.call(kind, f"llvm.{name}.{kind}", (kind, a), ("i1", "false"))
        if action == 7:
            name = rng.choice(("uadd.sat", "sadd.sat", "usub.sat", "ssub.sat", "fshl", "fshr"))
            extra = [(kind, self.pick(kind))] if name in ("fshl", "fshr") else []
            return self.call(kind, f"llvm.{name}.{kind}", (kind, a), (kind, b), *extra)
        return self.overflowing(kind, a, b)

    def divide(self, kind: str, a: str, b: str) -> str:
        operation = self.rng.choice(("udiv", "urem", "sdiv", "srem"))
        if operation[0] == "s":
            # Positive, so the least dividend is no trouble.
            b = self.emit(kind, f"lshr {kind} {b}, {self.rng.choice((1, 3, BITS[kind] // 2))}")
        divisor = self.emit(kind, f"or {kind} {b}, 1")
        return self.emit(kind, f"{operation} {kind} {a}, {divisor}")

    def overflowing(self, kind: str, a: str, b: str) -> str:
        name = self.rng.choice(("uadd", "sadd", "usub", "ssub", "umul", "smul"))
        function = f"llvm.{name}.with.overflow.{kind}"
        self.declarations.add(f"declare {{{kind}, i1}} @{function}({kind}, {kind})")
        both = self.name()
        self.lines.append(f"  {both} = call {{{kind}, i1}} @{function}({kind} {a}, {kind} {b})")
        self.emit("i1", f"extractvalue {{{kind}, i1}} {both}, 1")
        return self.emit(kind, f"extractvalue {{{kind}, i1}} {both}, 0")

    # Floats --------------------------------------------------------------------------------------
    def real(self, kind: str) -> str:
        rng = self.rng
        action = rng.randrange(8)
        a, b = self.pick(kind), self.pick(kind)
        t = SUFFIX[kind]
        if action <= 2:
            # LLVM 22 takes +0.0 - x for -x where another instruction uses it (docs/kernels.md).
            a = "1.0" if a == "0.0" else a
            return self.emit(kind, f"{rng.choice(('fadd', 'fsub', 'fmul'))} {kind} {a}, {b}")
        if action == 3:
            if kind == "half":
                return self.emit(kind, f"fmul {kind} {a}, {b}")
            return self.call(kind, f"llvm.fma.{t}", (kind, a), (kind, b), (kind, self.pick(kind)))
        if action == 4:
            return self.emit(kind, f"fdiv {kind} {a}, {b}")
        if action == 5:
            names = ("floor", "ceil", "trunc", "rint", "roundeven", "fabs", "sqrt", "round")
            return self.call(kind, f"llvm.{rng.choice(names)}.{t}", (kind, a))
        if action == 6:
            name = rng.choice(("copysign", "minimum", "maximum"))
            if name == "copysign":
                # The sign of a NaN is not defined, so the second operand is never one.
                b = self.emit(kind, f"sitofp i8 {self.pick('i8')} to {kind}")
            return self.call(kind, f"llvm.{name}.{t}", (kind, a), (kind, b))
        return self.emit(kind, f"fneg {kind} {a}")

    def compare(self) -> str:
        if self.rng.random() < 0.6:
            kind = self.rng.choice(INTEGERS)
            names = ("eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle")
            test = f"icmp {self.rng.choice(names)}"
        else:
            kind = self.rng.choice(FLOATS)
            names = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult")
            test = f"fcmp {self.rng.choice((*names, 'ule', 'une', 'uno'))}"
        return self.emit("i1", f"{test} {kind} {self.pick(kind)}, {self.pick(kind)}")

    # Conversions ---------------------------------------------------------------------------------
    def convert(self) -> str:
        rng = self.rng
        action = rng.randrange(5)
        if action == 0:
            narrow, wide = sorted(rng.sample(INTEGERS, 2), key=lambda k: BITS[k])
            if rng.random() < 0.5:
                return self.emit(narrow, f"trunc {wide} {self.pick(wide)} to {narrow}")
            name = rng.choice(("sext", "zext"))
            return self.emit(wide, f"{name} {narrow} {self.pick(narrow)} to {wide}")
        if action == 1:
            kind = rng.choice(INTEGERS)
            name = rng.choice(("sext", "zext"))
            return self.emit(kind, f"{name} i1 {self.pick('i1')} to {kind}")
        if action == 2:
            source = rng.choice(INTEGERS)
            # Wider integers to half would round twice on hosts without the instruction.
            kinds = FLOATS if BITS[source] <= 16 else FLOATS[1:]
            target, name = rng.choice(kinds), rng.choice(("sitofp", "uitofp"))
            return self.emit(target, f"{name} {source} {self.pick(source)} to {target}")
        if action == 3:
            source, target = rng.choice(FLOATS), rng.choice(INTEGERS)
            name = f"llvm.{rng.choice(('fptosi', 'fptoui'))}.sat.{target}.{SUFFIX[source]}"
            return self.call(target, name, (source, self.pick(source)))
        source, target = rng.choice(
            (
                ("half", "float"),
                ("float", "double"),
                ("half", "double"),
                ("float", "half"),
                ("double", "float"),
            )
        )
        name = "fptrunc" if FLOATS.index(source) > FLOATS.index(target) else "fpext"
        return self.emit(target, f"{name} {source} {self.pick(source)} to {target}")

    # Vectors -------------------------------------------------------------------------------------
    def vector(self) -> str:
        rng = self.rng
        kind = rng.choice(VECTORS)
        count, element = element_of(kind)
        action = rng.randrange(6)
        a, b = self.pick(kind), self.pick(kind)
        if action <= 1:
            names = ("fadd", "fmul") if element in FLOATS else ("add", "sub", "mul", "xor")
            return self.emit(kind, f"{rng.choice(names)} {kind} {a}, {b}")
        if action == 2:
            order = ", ".join(f"i32 {rng.randrange(2 * count)}" for _ in range(count))
            return self.emit(
                kind, f"shufflevector {kind} {a}, {kind} {b}, <{count} x i32> <{order}>"
            )
        index = self.masked("i32", count) if rng.random() < 0.5 else str(rng.randrange(count))
        if action == 3:
            return self.emit(
                kind, f"insertelement {kind} {a}, {element} {self.pick(element)}, i32 {index}"
            )
        if action == 4:
            return self.emit(element, f"extractelement {kind} {a}, i32 {index}")
        if element in FLOATS:
            return self.call(kind, f"llvm.fabs.{intrinsic_suffix(kind)}", (kind, a))
        name = rng.choice(("umin", "smax", "uadd.sat", "ssub.sat"))
        return self.call(kind, f"llvm.{name}.{intrinsic_suffix(kind)}", (kind, a), (kind, b))

    def unusual(self) -> str:
        """Double-width products, remainders, exponents, classes, reductions, lane-wise choices."""
        rng = self.rng
        action = rng.randrange(8)
        if action == 0:
            name, shift = rng.choice(("sext", "zext")), rng.randrange(0, 80)
            a, b = (self.emit("i128", f"{name} i64 {self.pick('i64')} to i128") for _ in "ab")
            wide = self.emit("i128", f"{rng.choice(('mul', 'add', 'sub'))} i128 {a}, {b}")
            moved = self.emit("i128", f"lshr i128 {wide}, {shift}")
            return self.emit("i64", f"trunc i128 {moved} to i64")
        if action == 1:
            kind = rng.choice(FLOATS[1:])
            return self.emit(kind, f"frem {kind} {self.pick(kind)}, {self.pick(kind)}")
        if action == 2:
            kind = rng.choice(FLOATS[1:])
            raw = self.emit("i32", f"sext i8 {self.pick('i8')} to i32")
            name = f"llvm.ldexp.{SUFFIX[kind]}.i32"
            return self.call(kind, name, (kind, self.pick(kind)), ("i32", raw))
        if action == 3:
            kind, classes = rng.choice(FLOATS), rng.randrange(1, 1023)
            # Which NaNs are quiet is not defined everywhere.
            classes = classes & ~3 | 3 * (classes & 1)
            name = f"llvm.is.fpclass.{SUFFIX[kind]}"
            return self.call("i1", name, (kind, self.pick(kind)), ("i32", str(classes)))
        if action == 4:
            kind = rng.choice(VECTORS[:4])
            _, element = element_of(kind)
            name = f"llvm.vector.reduce.{rng.choice(('add', 'xor', 'umax', 'smin'))}"
            return self.call(element, f"{name}.{intrinsic_suffix(kind)}", (kind, self.pick(kind)))
        if action == 5:
            kind = rng.choice(VECTORS[:4])
            count, _ = element_of(kind)
            a, b, c = (self.pick(kind) for _ in "abc")
            mask = self.emit(
                f"<{count} x i1>", f"icmp {rng.choice(('ult', 'sgt'))} {kind} {a}, {b}"
            )
            return self.emit(kind, f"select <{count} x i1> {mask}, {kind} {c}, {kind} {a}")
        if action == 6:
            narrow, wide = rng.choice((("<2 x i16>", "<2 x i32>"), ("<2 x half>", "<2 x float>")))
            if "half" in narrow:
                return self.emit(wide, f"fpext {narrow} {self.pick(narrow)} to {wide}")
            name = rng.choice(("sext", "zext"))
            return self.emit(wide, f"{name} {narrow} {self.pick(narrow)} to {wide}")
        kind = rng.choice(("i32", "i64"))
        # LLVM 22 copies half of a byte swap's source on gfx11 without optimisation, so no bswap.
        x = self.pick(kind)
        turned = self.call(kind, f"llvm.fshl.{kind}", (kind, x), (kind, x), (kind, "8"))
        return self.emit(kind, f"xor {kind} {turned}, {self.pick(kind)}")

    def switch(self) -> None:
        """A jump of several ways whose arms give one value."""
        rng, number = self.rng, self.number()
        at = self.masked("i32", 4)
        kind = rng.choice(INTEGERS)
        arms = [f"case{number}_{k}" for k in range(3)]
        ways = " ".join(f"i32 {k}, label %{arm}" for k, arm in enumerate(arms[1:]))
        self.lines.append(f"  switch i32 {at}, label %{arms[0]} [ {ways} ]")
        edges = []
        for arm in arms:
            self.label(arm)
            outer = self.scope(rng.randint(1, 3))
            edges.append(f"[ {self.pick(kind)}, %{self.block} ]")
            self.values = outer
            self.lines.append(f"  br label %after{number}")
        self.label(f"after{number}")
        self.emit(kind, f"phi {kind} {', '.join(edges)}")

    def choose(self) -> str:
        kind = self.rng.choice(INTEGERS + FLOATS + VECTORS)
        a, b = self.pick(kind), self.pick(kind)
        return self.emit(kind, f"select i1 {self.pick('i1')}, {kind} {a}, {kind} {b}")

    # Memory --------------------------------------------------------------------------------------
    def load_input(self) -> str:
        kind = self.rng.choice(tuple(PLACES))
        offset, count = PLACES[kind]
        size = BITS.get(kind, {"half": 16, "float": 32, "double": 64}.get(kind, 0)) // 8
        if self.rng.random() < 0.6:
            at = str(offset + size * self.rng.randrange(count))
        else:
            index = self.masked("i32", 1 << (count.bit_length() - 1))
            scaled = self.emit("i32", f"mul i32 {index}, {size}")
            at = self.emit("i32", f"add i32 {scaled}, {offset}")
        pointer = self.name()
        self.lines.append(f"  {pointer} = getelementptr i8, ptr %in, i32 {at}")
        return self.emit(kind, f"load {kind}, ptr {pointer}, align {size}")

    def local(self) -> str:
        """Write and read an array of the function's own."""
        index, other = self.masked("i32", 8), self.masked("i32", 8)
        for at, action in ((index, "store"), (other, "load")):
            pointer = self.name()
            self.lines.append(f"  {pointer} = getelementptr i32, ptr %local, i32 {at}")
            if action == "store":
                self.lines.append(f"  store i32 {self.pick('i32')}, ptr {pointer}")
                continue
            return self.emit("i32", f"load i32, ptr {pointer}")
        raise AssertionError

    # Control flow --------------------------------------------------------------------------------
    def scope(self, statements: int) -> dict[str, list[str]]:
        """Write statements whose values stay inside; return the scope before."""
        outer = self.values
        self.values = {k: list(x) for k, x in outer.items()}
        self.statements(statements)
        return outer

    def branch(self) -> None:
        rng, number = self.rng, self.number()
        condition = self.pick("i1")
        yes, no, join = (f"{word}{number}" for word in ("yes", "no", "join"))
        kinds = [rng.choice(INTEGERS + FLOATS) for _ in range(2)]
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")
        arms = []
        for name in (yes, no):
            self.label(name)
            outer = self.scope(rng.randint(1, 6))
            arms.append(([self.pick(k) for k in kinds], self.block))
            self.values = outer
            self.lines.append(f"  br label %{join}")
        self.label(join)
        for n, kind in enumerate(kinds):
            edges = ", ".join(f"[ {values[n]}, %{block} ]" for values, block in arms)
            self.emit(kind, f"phi {kind} {edges}")

    def loop(self) -> None:
        rng, number = self.rng, self.number()
        trips = self.masked("i32", rng.choice((2, 4, 8)))
        kind = rng.choice(INTEGERS + FLOATS)
        start, before = self.pick(kind), self.block
        head = f"loop{number}"
        index, carried = self.name(), self.name()
        step, result = self.name(), self.name()
        self.lines.append(f"  br label %{head}")
        self.label(head)
        at = len(self.lines)
        outer = self.values
        self.values = {k: list(x) for k, x in outer.items()}
        self.values.setdefault("i32", []).append(index)
        self.values.setdefault(kind, []).append(carried)
        self.statements(rng.randint(2, 6))
        after = self.integer(kind) if kind in INTEGERS else self.real(kind)
        phis = [
            f"  {index} = phi i32 [ 0, %{before} ], [ {step}, %{self.block} ]",
            f"  {carried} = phi {kind} [ {start}, %{before} ], [ {after}, %{self.block} ]",
        ]
        self.lines[at:at] = phis
        self.values, latch = outer, self.block
        self.lines.append(f"  {step} = add i32 {index}, 1")
        self.lines.append(f"  %more{number} = icmp ult i32 {index}, {trips}")
        self.lines.append(f"  br i1 %more{number}, label %{head}, label %done{number}")
        self.label(f"done{number}")
        self.lines.append(f"  {result} = phi {kind} [ {after}, %{latch} ]")
        self.values.setdefault(kind, []).append(result)

    # Whole functions -----------------------------------------------------------------------------
    def statements(self, count: int) -> None:
        for _ in range(count):
            draw = self.rng.random()
            if draw < 0.28:
                self.integer(self.rng.choice(INTEGERS))
            elif draw < 0.5:
                self.real(self.rng.choice(FLOATS))
            elif draw < 0.6:
                self.compare()
            elif draw < 0.72:
                self.convert()
            elif draw < 0.8:
                self.vector()
            elif draw < 0.86:
                self.choose()
            elif draw < 0.89:
                self.unusual()
            elif draw < 0.92 or self.depth >= 2:
                self.load_input()
            elif draw < 0.95:
                self.local()
            else:
                self.depth += 1
                self.rng.choice((self.branch, self.branch, self.loop, self.switch))()
                self.depth -= 1


def make_function(seed: int) -> Function:
    """Return the function of a seed."""
    rng = random.Random(seed)
    b = Builder(rng)
    for _ in range(8):
        b.load_input()
    b.compare()
    b.statements(rng.randint(15, 45))
    # What nothing else uses first, so that little of the function is dead.
    for flag in [x for x in b.values.get("i1", ()) if x not in b.used][:6]:
        b.emit("i8", f"zext i1 {flag} to i8")
    stored = [(kind, x) for kind, names in b.values.items() if kind in STORED for x in names]
    loose = [pair for pair in stored if pair[1] not in b.used]
    rng.shuffle(loose)
    chosen = (loose + rng.choices(stored, k=OUTPUTS))[:OUTPUTS]
    for slot, (kind, value) in enumerate(chosen):
        b.lines.append(f"  %o{slot} = getelementptr i8, ptr %out, i32 {16 * slot}")
        b.lines.append(f"  store {kind} {value}, ptr %o{slot}, align 16")
    outputs = [kind for kind, _ in chosen]
    b.lines.append("  ret void")
    return Function("\n".join(["entry:", *b.lines]), tuple(outputs), frozenset(b.declarations))
