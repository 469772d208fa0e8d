"""LLVM text of support routines: elementary functions, look-ups, lane moves, scalar loads."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import cast

from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.jit_tier.builder import FunctionBuilder, ModuleParts
from flydsl_emu.jit_tier.context import NO_FUEL, at
from flydsl_emu.jit_tier.faulting import SCALAR
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics import elementary
from flydsl_emu.semantics.api import VectorApi
from flydsl_emu.semantics.value_types import F64, TYPES

__all__ = ["CHECKS", "elementary_text", "lookup_text", "permute_text", "scalar_text"]

_FUNCTIONS = {
    "exp2": elementary.exp2,
    "log2": elementary.log2,
    "sin": elementary.sin,
    "cos": elementary.cos,
}


def elementary_text(name: str, parts: ModuleParts) -> str:
    """Return the routine of an elementary function: ``exp2.f32.64``, or ``.1`` for a scalar."""
    function, element, count = name.split(".")
    kind, uniform = TYPES[element], count == "1"
    code = FunctionBuilder(parts)
    v = Arithmetic(code, int(count))
    wide = v.convert(IrValue("%x", kind, uniform), F64)
    result = v.convert(_FUNCTIONS[function](cast(VectorApi, v), wide), kind)
    shape = v.shape(kind, uniform)
    body = "\n".join(code.lines)
    return f'define {shape} @"{name}"({shape} %x) #0 {{\n{body}\n  ret {shape} {result.text}\n}}\n'


def lookup_text(name: str, parts: ModuleParts) -> str:
    """Return the routine that looks indices up in a table: ``lookup.64.`` and its entries."""
    _, count, packed = name.split(".")
    entries = packed.split("_")
    items = ", ".join(f"i32 {int(x, 16)}" for x in entries)
    kind = f"[{len(entries)} x i32]"
    table = f"@table.{zlib.crc32(packed.encode()):08x}"
    parts.globals[table] = f"{table} = internal constant {kind} [{items}]"
    lanes = int(count)
    if lanes == 1:
        return f"""
define i32 @"{name}"(i32 %x) #0 {{
  %place = getelementptr i32, ptr {table}, i32 %x
  %value = load i32, ptr %place
  ret i32 %value
}}
"""
    return _per_lane(name, lanes, table, "")


def permute_text(name: str, _parts: ModuleParts) -> str:
    """Return the routine that gives each lane the element of a lane that it names."""
    lanes = int(name.split(".")[1])
    shape = f"<{lanes} x i32>"
    first = f"  store {shape} %data, ptr %copy, align 64\n"
    return _per_lane(name, lanes, "%copy", first)


def _per_lane(name: str, lanes: int, table: str, first: str) -> str:
    shape = f"<{lanes} x i32>"
    data = f"{shape} %data, " if first else ""
    mask = f"  %masked = and {shape} %x, splat (i32 {lanes - 1})\n" if first else ""
    index = "%masked" if first else "%x"
    return f"""
define {shape} @"{name}"({data}{shape} %x) #0 {{
entry:
  %copy = alloca {shape}, align 64
  %places = alloca {shape}, align 64
  %out = alloca {shape}, align 64
{first}{mask}  store {shape} {index}, ptr %places, align 64
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %next ]
  %i.p = getelementptr i32, ptr %places, i64 %n
  %i = load i32, ptr %i.p
  %i.wide = zext i32 %i to i64
  %e.p = getelementptr i32, ptr {table}, i64 %i.wide
  %e = load i32, ptr %e.p
  %o.p = getelementptr i32, ptr %out, i64 %n
  store i32 %e, ptr %o.p
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, {lanes}
  br i1 %more, label %next, label %done
done:
  %result = load {shape}, ptr %out, align 64
  ret {shape} %result
}}
"""


def _field(name: str, result: str, type: str = "i64") -> str:
    return (
        f"  %{result}.p = getelementptr i8, ptr %context, i64 {at(name)}\n"
        f"  %{result} = load {type}, ptr %{result}.p, align 8"
    )


def _set(name: str, value: str) -> str:
    return (
        f"  %set.{name} = getelementptr i8, ptr %context, i64 {at(name)}\n"
        f"  store i64 {value}, ptr %set.{name}, align 8"
    )


def _lookup_range(name: str, kind: str, table: str) -> str:
    """Text of a function: whether ``[a, end)`` is allowed; remembers the range that it hit."""
    return f"""
define internal i1 @range.{name}(ptr %context, i64 %a, i64 %size) #0 {{
entry:
  %end = add i64 %a, %size
  %sane = icmp uge i64 %end, %a
{_field(f"{kind}_start", "s")}
{_field(f"{kind}_end", "e")}
  %above = icmp uge i64 %a, %s
  %below = icmp ule i64 %end, %e
  %in = and i1 %above, %below
  %hit = and i1 %in, %sane
  br i1 %hit, label %yes, label %search
search:
{_field(table, "rows", "ptr")}
{_field(f"{table}_count", "count")}
  br label %next
next:
  %n = phi i64 [ 0, %search ], [ %following, %miss ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %look, label %no
look:
  %row = getelementptr [2 x i64], ptr %rows, i64 %n
  %row.end = getelementptr i64, ptr %row, i64 1
  %rs = load i64, ptr %row
  %re = load i64, ptr %row.end
  %from = icmp uge i64 %a, %rs
  %to = icmp ule i64 %end, %re
  %both = and i1 %from, %to
  %found = and i1 %both, %sane
  %following = add i64 %n, 1
  br i1 %found, label %keep, label %miss
miss:
  br label %next
keep:
{_set(f"{kind}_start", "%rs")}
{_set(f"{kind}_end", "%re")}
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


_RECORD = f"""
define internal void @record(ptr %context, i64 %kind, i32 %pc, i64 %a, i64 %lane, i64 %size,
    i64 %write) #0 {{
entry:
{_set("fuel", str(NO_FUEL))}
{_field("fault", "before")}
  %first = icmp eq i64 %before, 0
  br i1 %first, label %note, label %done
note:
  %wide = zext i32 %pc to i64
{_set("fault", "%kind")}
{_set("fault_pc", "%wide")}
{_set("fault_address", "%a")}
{_set("fault_lane", "%lane")}
{_set("fault_size", "%size")}
{_set("fault_write", "%write")}
  br label %done
done:
  ret void
}}
"""

CHECKS: dict[str, Callable[[], str]] = {
    "record": lambda: _RECORD,
    "read": lambda: _lookup_range("read", "read", "readable"),
    "write": lambda: _lookup_range("write", "write", "writable"),
}
"""Internal functions that memory routines share, by name."""


def scalar_text(name: str, _parts: ModuleParts) -> str:
    """Return the routine ``scalar.COUNT.BYTES``, which loads at a uniform address."""
    count, size = (int(x) for x in name.split(".")[1:])
    shape = f"<{count} x i{8 * size}>"
    everything = (1 << count) - 1
    singles = "\n".join(_single(k, count, size) for k in range(count))
    return f"""{_RECORD}{_lookup_range("read", "read", "readable")}
define {shape} @"{name}"(ptr %context, i64 %a, i64 %wanted, i32 %pc) #0 {{
entry:
  %all = icmp eq i64 %wanted, {everything}
  br i1 %all, label %whole, label %d0
whole:
  %good = call i1 @range.read(ptr %context, i64 %a, i64 {size * count})
  br i1 %good, label %read, label %refuse
read:
  %place = inttoptr i64 %a to ptr
  %value = load {shape}, ptr %place, align 1
  ret {shape} %value
refuse:
  call void @record(ptr %context, i64 {SCALAR}, i32 %pc, i64 %a, i64 -1, i64 {size}, i64 0)
  ret {shape} zeroinitializer
{singles}
d{count}:
  ret {shape} %w{count}
}}
""".replace("%w0", "zeroinitializer")


def _single(k: int, count: int, size: int) -> str:
    shape = f"<{count} x i{8 * size}>"
    before = "%w0" if k == 0 else f"%w{k}"
    return f"""d{k}:
  %bit{k} = and i64 %wanted, {1 << k}
  %on{k} = icmp ne i64 %bit{k}, 0
  br i1 %on{k}, label %check{k}, label %join{k}
check{k}:
  %a{k} = add i64 %a, {size * k}
  %good{k} = call i1 @range.read(ptr %context, i64 %a{k}, i64 {size})
  br i1 %good{k}, label %load{k}, label %bad{k}
load{k}:
  %place{k} = inttoptr i64 %a{k} to ptr
  %value{k} = load i{8 * size}, ptr %place{k}, align 1
  %new{k} = insertelement {shape} {before}, i{8 * size} %value{k}, i32 {k}
  br label %join{k}
bad{k}:
  call void @record(ptr %context, i64 {SCALAR}, i32 %pc, i64 %a{k}, i64 -1, i64 {size}, i64 0)
  br label %join{k}
join{k}:
  %w{k + 1} = phi {shape} [ {before}, %d{k} ], [ %new{k}, %load{k} ], [ {before}, %bad{k} ]
  br label %d{k + 1}"""
