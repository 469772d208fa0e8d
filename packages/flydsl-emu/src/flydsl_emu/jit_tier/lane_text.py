"""LLVM text that moves the elements of lanes which lie anywhere in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Form", "lane_by_lane", "place_element", "pointer_text"]


@dataclass(frozen=True, slots=True)
class Form:
    """One routine.

    Attributes:
        verb: ``"load"`` or ``"store"``.
        each: Whether every element has a mask of its own.
        space: As in `VectorApi.load`.
        size: Bytes of an element.
        count: Elements.
        lanes: Lanes of a wave.
    """

    verb: str
    each: bool
    space: str
    size: int
    count: int
    lanes: int

    @classmethod
    def of(cls, name: str) -> Form:
        """Return the form that a routine's name describes."""
        head, *rest = name.split(".")
        each = rest[0] == "each"
        space, size, count, lanes = rest[each:]
        return cls(head, each, space, int(size), int(count), int(lanes))

    @property
    def element(self) -> str:
        """LLVM type of an element in memory."""
        return f"i{8 * self.size}"

    @property
    def total(self) -> int:
        """Bytes that a lane accesses."""
        return self.size * self.count

    @property
    def words(self) -> str:
        """LLVM type of a register."""
        return f"<{self.lanes} x i32>"

    @property
    def address(self) -> str:
        """LLVM type of the addresses."""
        wide = self.space in ("global", "flat")
        return f"<{self.lanes} x {'i64' if wide else 'i32'}>"

    @property
    def result(self) -> str:
        """LLVM type of what a load returns."""
        if self.count == 1:
            return self.words
        return "{" + ", ".join([self.words] * self.count) + "}"


def place_element(space: str) -> str:
    """Return the LLVM type of what `place_text` makes: LDS keeps its short offsets."""
    return "i32" if space == "lds" else "i64"


def pointer_text(space: str, offset: str, result: str) -> str:
    """Return instructions that make a pointer of one of the addresses of `place_text`."""
    if space == "lds":
        return (
            f"  {result}.w = zext i32 {offset} to i64\n"
            f"  {result} = getelementptr i8, ptr %base, i64 {result}.w"
        )
    return f"  {result} = inttoptr i64 {offset} to ptr"


def lane_by_lane(form: Form, space: str) -> str:
    """Return instructions that load all lanes from their ``%places`` in memory."""
    if form.total == 16 and form.size == 4:
        return _quads(form, space)
    lanes, count, element, place = form.lanes, form.count, form.element, place_element(space)
    group = f"<{count} x {element}>" if count > 1 else element
    return f"""  br label %copy
copy:
  %n = phi i64 [ 0, %all ], [ %n.next, %copy ]
  %n.p = getelementptr {place}, ptr %places, i64 %n
  %n.at = load {place}, ptr %n.p
{pointer_text(space, "%n.at", "%n.from")}
  %n.data = load {group}, ptr %n.from, align 1
  %n.index = mul i64 %n, {count}
  %n.to = getelementptr {element}, ptr %stage, i64 %n.index
  store {group} %n.data, ptr %n.to, align {form.size}
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, {lanes}
  br i1 %n.more, label %copy, label %staged"""


def _quads(form: Form, space: str) -> str:
    """Return instructions that load four dwords a lane and return them by register.

    A vector takes every fourth of 16 lanes, so that four such vectors are transposed in place.
    """
    place, four, wide = place_element(space), "<4 x i32>", "<16 x i32>"
    lines: list[str] = []
    for first in range(0, form.lanes, 16):
        for lane in range(first, first + 16):
            lines.append(f"  %p{lane} = getelementptr {place}, ptr %places, i64 {lane}")
            lines.append(f"  %a{lane} = load {place}, ptr %p{lane}")
            lines.append(pointer_text(space, f"%a{lane}", f"%f{lane}"))
            lines.append(f"  %l{lane} = load {four}, ptr %f{lane}, align 1")
        for q in range(first, first + 4):
            for half in (0, 8):
                pair = ", ".join(f"{four} %l{q + half + k}" for k in (0, 4))
                lines.append(f"  %h{q}.{half} = shufflevector {pair}, {_order(range(8))}")
            lines.append(
                f"  %z{q} = shufflevector <8 x i32> %h{q}.0, <8 x i32> %h{q}.8, {_order(range(16))}"
            )
        for k, (x, y, step) in enumerate(
            (x, y, step) for x, y in ((0, 1), (2, 3)) for step in (0, 2)
        ):
            order = [n + step + half for n in range(0, 16, 4) for half in (0, 16, 1, 17)]
            lines.append(
                f"  %t{first}.{k} = shufflevector {wide} %z{first + x}, {wide} %z{first + y}, "
                f"{_order(order)}"
            )
        for r in range(4):
            order = [n + 2 * (r % 2) + half for n in range(0, 16, 4) for half in (0, 1, 16, 17)]
            lines.append(
                f"  %r{first}.{r} = shufflevector {wide} %t{first}.{r // 2}, "
                f"{wide} %t{first}.{r // 2 + 2}, {_order(order)}"
            )
    result = "poison"
    for r in range(4):
        names = [f"%r{first}.{r}" for first in range(0, form.lanes, 16)]
        width = 16
        while len(names) > 1:
            joined = []
            for k in range(0, len(names), 2):
                name = f"%j{r}.{width}.{k}"
                both = ", ".join(f"<{width} x i32> {x}" for x in names[k : k + 2])
                lines.append(f"  {name} = shufflevector {both}, {_order(range(2 * width))}")
                joined.append(name)
            names, width = joined, 2 * width
        lines.append(f"  %q{r} = insertvalue {form.result} {result}, {form.words} {names[0]}, {r}")
        result = f"%q{r}"
    return "\n".join((*lines, f"  ret {form.result} {result}"))


def _order(numbers: Iterable[int]) -> str:
    """Return the mask of a shuffle."""
    order = [f"i32 {n}" for n in numbers]
    return f"<{len(order)} x i32> <{', '.join(order)}>"
