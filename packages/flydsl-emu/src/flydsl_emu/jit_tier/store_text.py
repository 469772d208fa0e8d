"""LLVM text of the routines that store lanes; see `flydsl_emu.jit_tier.memory_text`."""

from __future__ import annotations

from flydsl_emu.jit_tier.builder import ModuleParts
from flydsl_emu.jit_tier.lane_text import Form, place_element, pointer_text
from flydsl_emu.jit_tier.memory_text import (
    SPACES,
    alike_text,
    dense_text,
    flat_masks,
    place_text,
    shared_text,
    signature,
    splat_text,
)

__all__ = ["store_text"]


def store_text(name: str, parts: ModuleParts) -> str:
    """Return the routine ``store[.each].SPACE.SIZE.COUNT.LANES``."""
    form = Form.of(name)
    text = shared_text(form, parts)
    plain = name.replace(".each", "")
    if form.space == "flat":
        text += "".join(_plain_store(form, space) for space in SPACES) + _flat_store(form, plain)
    else:
        text += _plain_store(form, form.space, plain)
    if form.each:
        text += _each_store(form, name, plain)
    return text


def _data(form: Form) -> str:
    return "".join(f", {form.words} %x{k}" for k in range(form.count))


def _plain_store(form: Form, space: str, name: str = "") -> str:
    lanes, count, element = form.lanes, form.count, form.element
    items = lanes * count
    header = f'define void @"{name}"' if name else f"define internal void @{space}"
    address = f"<{lanes} x {'i64' if space == 'global' else 'i32'}>"
    group = f"<{count} x {element}>" if count > 1 else element
    place = place_element(space)
    return f"""
{header}({signature(form, space)}{_data(form)}) #0 {{
entry:
  %stage = alloca [{items} x {element}], align 64
  %places = alloca <{lanes} x {place}>, align 64
  %ok = call i64 @check.{space}(ptr %context, {address} %a, i64 %mask, i64 {form.total}, i32 %pc)
{place_text(space, lanes)}
{_packed(form)}
  %full = icmp eq i64 %ok, {-1 if lanes == 64 else 0xFFFFFFFF}
  br i1 %full, label %test, label %each
test:{dense_text(form, space)}
  br i1 %dense, label %whole, label %all
whole:
{pointer_text(space, "%at0", "%first")}
  store <{items} x {element}> %data, ptr %first, align 1
  ret void
all:
  store <{items} x {element}> %data, ptr %stage, align 64
  store <{lanes} x {place}> %at, ptr %places, align 64
  br label %copy
copy:
  %n = phi i64 [ 0, %all ], [ %n.next, %copy ]
  %n.index = mul i64 %n, {count}
  %n.from = getelementptr {element}, ptr %stage, i64 %n.index
  %n.data = load {group}, ptr %n.from, align {form.size}
  %n.p = getelementptr {place}, ptr %places, i64 %n
  %n.at = load {place}, ptr %n.p
{pointer_text(space, "%n.at", "%n.to")}
  store {group} %n.data, ptr %n.to, align 1
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, {lanes}
  br i1 %n.more, label %copy, label %done
each:
  store <{items} x {element}> %data, ptr %stage, align 64
  store <{lanes} x {place}> %at, ptr %places, align 64
  br label %some
some:
  %left = phi i64 [ %ok, %each ], [ %rest, %one ]
  %end = icmp eq i64 %left, 0
  br i1 %end, label %done, label %one
one:
  %l = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  %l.index = mul i64 %l, {count}
  %l.from = getelementptr {element}, ptr %stage, i64 %l.index
  %l.data = load {group}, ptr %l.from, align {form.size}
  %l.p = getelementptr {place}, ptr %places, i64 %l
  %l.at = load {place}, ptr %l.p
{pointer_text(space, "%l.at", "%l.to")}
  store {group} %l.data, ptr %l.to, align 1
  br label %some
done:
  ret void
}}
"""


def _packed(form: Form) -> str:
    """Return instructions that interleave the elements of each lane into ``%data``."""
    lanes, count, element = form.lanes, form.count, form.element
    lines, parts = [], []
    for k in range(count):
        parts.append(f"%x{k}")
        if form.size < 4:
            lines.append(f"  %n{k} = trunc {form.words} %x{k} to <{lanes} x {element}>")
            parts[-1] = f"%n{k}"
    width = 1
    # Join neighbours until one vector holds all elements, element-major.
    names = parts
    while len(names) > 1:
        joined = []
        for k in range(0, len(names), 2):
            source = f"<{lanes * width} x {element}>"
            other = names[k + 1] if k + 1 < len(names) else "poison"
            order = ", ".join(f"i32 {n}" for n in range(2 * lanes * width))
            name = f"%join{width}.{k}"
            lines.append(
                f"  {name} = shufflevector {source} {names[k]}, {source} {other}, "
                f"<{2 * lanes * width} x i32> <{order}>"
            )
            joined.append(name)
        names, width = joined, 2 * width
    source = f"<{lanes * width} x {element}>"
    order = ", ".join(f"i32 {k * lanes + lane}" for lane in range(lanes) for k in range(count))
    lines.append(
        f"  %data = shufflevector {source} {names[0]}, {source} poison, "
        f"<{lanes * count} x i32> <{order}>"
    )
    return "\n".join(lines)


def _flat_store(form: Form, name: str) -> str:
    header = f'define void @"{name}"({signature(form, "flat")}{_data(form)}) #0 {{'
    lines = [header, flat_masks(form.lanes)]
    for space in SPACES:
        address = form.address if space == "global" else f"<{form.lanes} x i32>"
        value = "%a" if space == "global" else "%low"
        lines.append(
            f"  call void @{space}(ptr %context, {address} {value}, i64 %m.{space}, "
            f"i32 %pc{_data(form)})"
        )
    return "\n".join((*lines, "  ret void", "}", ""))


def _each_store(form: Form, name: str, plain: str) -> str:
    single = Form("store", False, form.space, form.size, 1, form.lanes)
    one = _plain_store(single, form.space, "one").replace("define void", "define internal void", 1)
    masks = f"<{form.count} x i64>"
    lines = [
        (
            f'define void @"{name}"(ptr %context, {form.address} %a, {masks} %masks, '
            f"i32 %pc{_data(form)}) #0 {{"
        ),
        "entry:",
        *alike_text(form),
        "same:",
        (
            f'  call void @"{plain}"(ptr %context, {form.address} %a, i64 %mask0, '
            f"i32 %pc{_data(form)})"
        ),
        "  ret void",
        "apart:",
    ]
    for k in range(form.count):
        lines += [
            f"  %a{k} = add {form.address} %a, {splat_text(form, k * form.size)}",
            (
                f'  call void @"one"(ptr %context, {form.address} %a{k}, i64 %mask{k}, i32 %pc, '
                f"{form.words} %x{k})"
            ),
        ]
    return one + "\n".join((*lines, "  ret void", "}", ""))
