"""LLVM text of the routines that load lanes, and of what loads and stores share: bounds checks.

A routine checks all lanes at once against the range that was hit last; only what falls outside is
looked at lane by lane. Lanes that fail are recorded and left out. When all lanes take part and lie
one after another in memory, the access is one wide load or store; otherwise lanes are copied one
by one, each with all its elements.
"""

from __future__ import annotations

from flydsl_emu.execution.host import PRIVATE_APERTURE, SHARED_APERTURE
from flydsl_emu.jit_tier.builder import ModuleParts
from flydsl_emu.jit_tier.context import at
from flydsl_emu.jit_tier.faulting import GLOBAL, LDS, SCRATCH
from flydsl_emu.jit_tier.lane_text import Form, lane_by_lane, place_element, pointer_text
from flydsl_emu.jit_tier.support_text import CHECKS

__all__ = [
    "SPACES",
    "alike_text",
    "checks_text",
    "dense_text",
    "flat_masks",
    "load_text",
    "load_to_text",
    "place_text",
    "shared_text",
    "signature",
    "splat_text",
]

SPACES = ("global", "lds", "scratch")


# Bounds ------------------------------------------------------------------------------------------
def checks_text(space: str, write: bool, lanes: int, parts: ModuleParts) -> str:
    """Return the function ``@check.SPACE`` that clears the lanes that may not access.

    It takes the context, addresses, a lane mask, the bytes of an access and the instruction's
    offset; it returns the addresses in host memory through its last argument.
    """
    address = f"<{lanes} x {'i64' if space == 'global' else 'i32'}>"
    element = "i64" if space == "global" else "i32"
    for end in ("umin", "umax"):
        parts.declare(f"llvm.vector.reduce.{end}.v{lanes}{element}", element, [address])
    parts.declare("llvm.cttz.i64", "i64", ["i64", "i1"])
    kind = {"global": GLOBAL, "lds": LDS, "scratch": SCRATCH}[space]
    direction = "write" if write else "read"
    quick, single = _quick(space, direction, lanes), _single(space, direction)
    narrow = "" if lanes == 64 else "  %narrow = trunc i64 %mask to i32\n"
    bits = "i64 %mask" if lanes == 64 else "i32 %narrow"
    wide = "%al" if space == "global" else "%aw"
    widen = "" if space == "global" else "  %aw = zext i32 %al to i64\n"
    return f"""
define internal i64 @check.{space}(ptr %context, {address} %a, i64 %mask, i64 %size, i32 %pc) #0 {{
entry:
  %none = icmp eq i64 %mask, 0
  br i1 %none, label %fine, label %test
test:
{narrow}  %m = bitcast {bits} to <{lanes} x i1>
{quick}
  br i1 %good, label %fine, label %slow
fine:
  ret i64 %mask
slow:
  %copy = alloca {address}, align 64
  store {address} %a, ptr %copy, align 64
  br label %next
next:
  %left = phi i64 [ %mask, %slow ], [ %rest, %step ]
  %kept = phi i64 [ %mask, %slow ], [ %kept.new, %step ]
  %end = icmp eq i64 %left, 0
  br i1 %end, label %done, label %lane
lane:
  %l = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  %place = getelementptr {element}, ptr %copy, i64 %l
  %al = load {element}, ptr %place
{widen}{single.replace("%A", wide)}
  br i1 %ok, label %step, label %bad
bad:
  call void @record(ptr %context, i64 {kind}, i32 %pc, i64 {wide}, i64 %l, i64 %size,
    i64 {int(write)})
  %bit = shl i64 1, %l
  %flip = xor i64 %bit, -1
  %cleared = and i64 %kept, %flip
  br label %step
step:
  %kept.new = phi i64 [ %kept, %lane ], [ %cleared, %bad ]
  br label %next
done:
  ret i64 %kept
}}
"""


def _quick(space: str, direction: str, lanes: int) -> str:
    if space == "global":
        shape = f"<{lanes} x i64>"
        return f"""
  %lows = select <{lanes} x i1> %m, {shape} %a, {shape} splat (i64 -1)
  %highs = select <{lanes} x i1> %m, {shape} %a, {shape} zeroinitializer
  %low = call i64 @llvm.vector.reduce.umin.v{lanes}i64({shape} %lows)
  %high = call i64 @llvm.vector.reduce.umax.v{lanes}i64({shape} %highs)
  %extent.1 = sub i64 %high, %low
  %extent = add i64 %extent.1, %size
  %good = call i1 @range.{direction}(ptr %context, i64 %low, i64 %extent)"""
    shape = f"<{lanes} x i32>"
    return f"""
  %highs = select <{lanes} x i1> %m, {shape} %a, {shape} zeroinitializer
  %high = call i32 @llvm.vector.reduce.umax.v{lanes}i32({shape} %highs)
  %high.wide = zext i32 %high to i64
  %high.end = add i64 %high.wide, %size
  %limit.p = getelementptr i8, ptr %context, i64 {at(f"{space}_size")}
  %limit = load i64, ptr %limit.p
  %good = icmp ule i64 %high.end, %limit"""


def _single(space: str, direction: str) -> str:
    if space == "global":
        return f"  %ok = call i1 @range.{direction}(ptr %context, i64 %A, i64 %size)"
    return f"""  %a.end = add i64 %A, %size
  %bound.p = getelementptr i8, ptr %context, i64 {at(f"{space}_size")}
  %bound = load i64, ptr %bound.p
  %ok = icmp ule i64 %a.end, %bound"""


def place_text(space: str, lanes: int) -> str:
    """Return instructions that make host addresses ``%at`` of the addresses ``%a``."""
    shape = f"<{lanes} x i64>"
    if space == "global":
        return f"  %at = add {shape} %a, zeroinitializer"
    if space == "lds":
        return (
            f"  %base.p = getelementptr i8, ptr %context, i64 {at(space)}\n"
            "  %base = load ptr, ptr %base.p\n"
            f"  %at = add <{lanes} x i32> %a, zeroinitializer"
        )
    lines = [
        f"  %wide = zext <{lanes} x i32> %a to {shape}",
        f"  %base.p = getelementptr i8, ptr %context, i64 {at(space)}",
        "  %base = load i64, ptr %base.p",
        f"  %base.v = insertelement {shape} poison, i64 %base, i32 0",
        (
            f"  %bases = shufflevector {shape} %base.v, {shape} poison, "
            f"<{lanes} x i32> zeroinitializer"
        ),
    ]
    numbers = ", ".join(f"i64 {k}" for k in range(lanes))
    lines += [
        f"  %stride.p = getelementptr i8, ptr %context, i64 {at('scratch_stride')}",
        "  %stride = load i64, ptr %stride.p",
        f"  %stride.v = insertelement {shape} poison, i64 %stride, i32 0",
        (
            f"  %strides = shufflevector {shape} %stride.v, {shape} poison, "
            f"<{lanes} x i32> zeroinitializer"
        ),
        f"  %own = mul {shape} %strides, <{numbers}>",
        f"  %owned = add {shape} %bases, %own",
        f"  %at = add {shape} %owned, %wide",
    ]
    return "\n".join(lines)


def dense_text(form: Form, space: str) -> str:
    """Return instructions that tell in ``%dense`` whether the lanes lie one after another."""
    element = place_element(space)
    lanes, shape = form.lanes, f"<{form.lanes} x {element}>"
    offsets = ", ".join(f"{element} {form.total * k}" for k in range(lanes))
    return f"""
  %at0 = extractelement {shape} %at, i32 0
  %at0.v = insertelement {shape} poison, {element} %at0, i32 0
  %at0.s = shufflevector {shape} %at0.v, {shape} poison, <{lanes} x i32> zeroinitializer
  %line = add {shape} %at0.s, <{offsets}>
  %same = icmp eq {shape} %line, %at
  %same.b = bitcast <{lanes} x i1> %same to i{lanes}
  %dense = icmp eq i{lanes} %same.b, -1"""


def shared_text(form: Form, parts: ModuleParts) -> str:
    """Return the internal functions that a routine's spaces need."""
    write = form.verb == "store"
    direction = "write" if write else "read"
    spaces = SPACES if form.space == "flat" else (form.space,)
    text = CHECKS["record"]() + CHECKS[direction]()
    return text + "".join(checks_text(space, write, form.lanes, parts) for space in spaces)


# Loads -------------------------------------------------------------------------------------------
def load_text(name: str, parts: ModuleParts) -> str:
    """Return the routine ``load[.each].SPACE.SIZE.COUNT.LANES``."""
    form = Form.of(name)
    text = shared_text(form, parts)
    plain = name.replace(".each", "")
    if form.space == "flat":
        text += "".join(_plain_load(form, space) for space in SPACES) + _flat_load(form, plain)
    else:
        text += _plain_load(form, form.space, plain)
    if form.each:
        text += _each_load(form, name, plain)
    return text


def load_to_text(name: str, parts: ModuleParts) -> str:
    """Return the routine ``loadto.SPACE.SIZE.COUNT.LANES``, which loads into registers in memory.

    Its last argument is the address of the first register.
    """
    plain = name.replace("loadto", "load")
    form = Form.of(plain)
    text = load_text(plain, parts).replace(
        f'define {form.result} @"{plain}"', f'define internal {form.result} @"{plain}"'
    )
    lines = []
    for k in range(form.count):
        value = "%loaded"
        if form.count > 1:
            value = f"%part{k}"
            lines.append(f"  {value} = extractvalue {form.result} %loaded, {k}")
        lines.append(f"  %to{k} = getelementptr i8, ptr %to, i64 {4 * form.lanes * k}")
        lines.append(f"  store {form.words} {value}, ptr %to{k}, align 64")
    body = "\n".join(lines)
    return f"""{text}
define void @"{name}"({signature(form, form.space)}, ptr %to) #0 {{
  %loaded = call {form.result} @"{plain}"(ptr %context, {form.address} %a, i64 %mask, i32 %pc)
{body}
  ret void
}}
"""


def signature(form: Form, space: str) -> str:
    """Return the first parameters of a routine for one space."""
    wide = space in ("global", "flat")
    return f"ptr %context, <{form.lanes} x {'i64' if wide else 'i32'}> %a, i64 %mask, i32 %pc"


def _plain_load(form: Form, space: str, name: str = "") -> str:
    lanes, count, element = form.lanes, form.count, form.element
    items = lanes * count
    header = (
        f'define {form.result} @"{name}"' if name else f"define internal {form.result} @{space}"
    )
    address = f"<{lanes} x {'i64' if space == 'global' else 'i32'}>"
    group = f"<{count} x {element}>" if count > 1 else element
    place = place_element(space)
    return f"""
{header}({signature(form, space)}) #0 {{
entry:
  %stage = alloca [{items} x {element}], align 64
  %places = alloca <{lanes} x {place}>, align 64
  %ok = call i64 @check.{space}(ptr %context, {address} %a, i64 %mask, i64 {form.total}, i32 %pc)
{place_text(space, lanes)}
  %full = icmp eq i64 %ok, {-1 if lanes == 64 else 0xFFFFFFFF}
  br i1 %full, label %test, label %clear
test:{dense_text(form, space)}
  br i1 %dense, label %whole, label %all
whole:
{pointer_text(space, "%at0", "%first")}
  %line.data = load <{items} x {element}>, ptr %first, align 1
  br label %out
all:
  store <{lanes} x {place}> %at, ptr %places, align 64
{lane_by_lane(form, space)}
clear:
  store <{items} x {element}> zeroinitializer, ptr %stage, align 64
  store <{lanes} x {place}> %at, ptr %places, align 64
  br label %some
some:
  %left = phi i64 [ %ok, %clear ], [ %rest, %one ]
  %end = icmp eq i64 %left, 0
  br i1 %end, label %staged, label %one
one:
  %l = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  %l.p = getelementptr {place}, ptr %places, i64 %l
  %l.at = load {place}, ptr %l.p
{pointer_text(space, "%l.at", "%l.from")}
  %l.data = load {group}, ptr %l.from, align 1
  %l.index = mul i64 %l, {count}
  %l.to = getelementptr {element}, ptr %stage, i64 %l.index
  store {group} %l.data, ptr %l.to, align {form.size}
  br label %some
staged:
  %stage.data = load <{items} x {element}>, ptr %stage, align 64
  br label %out
out:
  %data = phi <{items} x {element}> [ %line.data, %whole ], [ %stage.data, %staged ]
{_unpacked(form)}
}}
"""


def _unpacked(form: Form) -> str:
    """Return instructions that give back each element's lanes of ``%data``."""
    lanes, count, element = form.lanes, form.count, form.element
    source = f"<{lanes * count} x {element}>"
    lines, result = [], "poison"
    for k in range(count):
        part = "%data"
        if count > 1:
            order = ", ".join(f"i32 {count * lane + k}" for lane in range(lanes))
            lines.append(
                f"  %part{k} = shufflevector {source} %data, {source} poison, "
                f"<{lanes} x i32> <{order}>"
            )
            part = f"%part{k}"
        if form.size < 4:
            lines.append(f"  %word{k} = zext <{lanes} x {element}> {part} to {form.words}")
            part = f"%word{k}"
        if count == 1:
            result = part
        else:
            lines.append(
                f"  %struct{k} = insertvalue {form.result} {result}, {form.words} {part}, {k}"
            )
            result = f"%struct{k}"
    return "\n".join((*lines, f"  ret {form.result} {result}"))


def flat_masks(lanes: int) -> str:
    """Return instructions that split a flat access: masks ``%m.SPACE`` and ``%low``."""
    shape = f"<{lanes} x i64>"
    lines = [
        f"  %high = lshr {shape} %a, splat (i64 32)",
        f"  %low = trunc {shape} %a to <{lanes} x i32>",
    ]
    for space, code in (("lds", SHARED_APERTURE), ("scratch", PRIVATE_APERTURE)):
        lines += [
            f"  %is.{space} = icmp eq {shape} %high, splat (i64 {code})",
            f"  %bits.{space} = bitcast <{lanes} x i1> %is.{space} to i{lanes}",
        ]
        if lanes == 32:
            lines.append(f"  %all.{space} = zext i32 %bits.{space} to i64")
        else:
            lines.append(f"  %all.{space} = add i64 %bits.{space}, 0")
        lines.append(f"  %m.{space} = and i64 %mask, %all.{space}")
    lines += [
        "  %local = or i64 %all.lds, %all.scratch",
        "  %elsewhere = xor i64 %local, -1",
        "  %m.global = and i64 %mask, %elsewhere",
    ]
    return "\n".join(lines)


def _flat_load(form: Form, name: str) -> str:
    lines = [
        f'define {form.result} @"{name}"({signature(form, "flat")}) #0 {{',
        flat_masks(form.lanes),
    ]
    for space in SPACES:
        address = form.address if space == "global" else f"<{form.lanes} x i32>"
        value = "%a" if space == "global" else "%low"
        lines.append(
            f"  %r.{space} = call {form.result} @{space}(ptr %context, {address} {value}, "
            f"i64 %m.{space}, i32 %pc)"
        )
    result = "poison"
    for k in range(form.count):
        parts = []
        for space in SPACES:
            parts.append(f"%r.{space}")
            if form.count > 1:
                lines.append(f"  %r.{space}.{k} = extractvalue {form.result} %r.{space}, {k}")
                parts[-1] = f"%r.{space}.{k}"
        lines.append(f"  %or{k} = or {form.words} {parts[0]}, {parts[1]}")
        lines.append(f"  %sum{k} = or {form.words} %or{k}, {parts[2]}")
        if form.count == 1:
            result = "%sum0"
        else:
            lines.append(f"  %s{k} = insertvalue {form.result} {result}, {form.words} %sum{k}, {k}")
            result = f"%s{k}"
    return "\n".join((*lines, f"  ret {form.result} {result}", "}", ""))


def _each_load(form: Form, name: str, plain: str) -> str:
    """Return the routine with a mask for every element."""
    single = Form("load", False, form.space, form.size, 1, form.lanes)
    one = _plain_load(single, form.space, "one").replace("define <", "define internal <", 1)
    masks = f"<{form.count} x i64>"
    lines = [
        (
            f'define {form.result} @"{name}"(ptr %context, {form.address} %a, {masks} %masks, '
            "i32 %pc) #0 {"
        ),
        "entry:",
        *alike_text(form),
        "same:",
        (
            f'  %whole = call {form.result} @"{plain}"(ptr %context, {form.address} %a, '
            "i64 %mask0, i32 %pc)"
        ),
        f"  ret {form.result} %whole",
        "apart:",
    ]
    result = "poison"
    for k in range(form.count):
        lines += [
            f"  %a{k} = add {form.address} %a, {splat_text(form, k * form.size)}",
            (
                f'  %e{k} = call {form.words} @"one"(ptr %context, {form.address} %a{k}, '
                f"i64 %mask{k}, i32 %pc)"
            ),
            f"  %s{k} = insertvalue {form.result} {result}, {form.words} %e{k}, {k}",
        ]
        result = f"%s{k}"
    return one + "\n".join((*lines, f"  ret {form.result} {result}", "}", ""))


def splat_text(form: Form, value: int) -> str:
    """Return a number as the same for all lanes, in the type of the addresses."""
    element = "i64" if form.space in ("global", "flat") else "i32"
    return f"splat ({element} {value})"


def alike_text(form: Form) -> list[str]:
    """Return instructions that branch on whether all masks are the same."""
    masks = f"<{form.count} x i64>"
    lines = [f"  %mask{k} = extractelement {masks} %masks, i32 {k}" for k in range(form.count)]
    condition = "true"
    for k in range(1, form.count):
        lines.append(f"  %eq{k} = icmp eq i64 %mask0, %mask{k}")
        lines.append(f"  %and{k} = and i1 {condition}, %eq{k}")
        condition = f"%and{k}"
    return [*lines, f"  br i1 {condition}, label %same, label %apart"]
