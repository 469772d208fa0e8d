"""LLVM text of the driver: sets workgroups up and runs their waves in turns.

``driver.groups`` runs workgroups one after another in one block of memory until one does not end
by itself; ``driver.group`` goes on with one. Results: `DONE`, `WAITING` (its waves used up their
turns), or `EVENT` (a fault, an indirect jump or a split barrier, of the context's wave).
"""

from __future__ import annotations

from flydsl_emu.jit_tier.builder import ModuleParts
from flydsl_emu.jit_tier.context import BARRIER, END, YIELD, WaveLayout, at

__all__ = ["DONE", "EVENT", "STOPPED", "WAITING", "driver_text"]

DONE, WAITING, EVENT, STOPPED = 0, 1, 2, 3


# Own loops: LLVM's would be calls of the C library. Sizes are multiples of 64.
_CHUNKS = """
define internal void @clear(ptr %to, i64 %size) #1 {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %following, %next ]
  %place = getelementptr i8, ptr %to, i64 %n
  store <16 x i32> zeroinitializer, ptr %place, align 4
  %following = add i64 %n, 64
  %more = icmp ult i64 %following, %size
  br i1 %more, label %next, label %done
done:
  ret void
}
define internal void @copy(ptr %to, ptr %from, i64 %size) #1 {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %following, %next ]
  %source = getelementptr i8, ptr %from, i64 %n
  %value = load <16 x i32>, ptr %source, align 4
  %place = getelementptr i8, ptr %to, i64 %n
  store <16 x i32> %value, ptr %place, align 4
  %following = add i64 %n, 64
  %more = icmp ult i64 %following, %size
  br i1 %more, label %next, label %done
done:
  ret void
}
attributes #1 = { nounwind noinline "no-builtins" "prefer-vector-width"="512"
  "min-legal-vector-width"="512" }
"""


def _get(name: str, result: str, type: str = "i64") -> str:
    return (
        f"  %{result}.p = getelementptr i8, ptr %context, i64 {at(name)}\n"
        f"  %{result} = load {type}, ptr %{result}.p, align 8"
    )


def _put(name: str, value: str) -> str:
    return (
        f"  %put.{name} = getelementptr i8, ptr %context, i64 {at(name)}\n"
        f"  store i64 {value}, ptr %put.{name}, align 8"
    )


def driver_text(name: str, _parts: ModuleParts) -> str:
    """Return the driver for a wave layout: ``driver.LANES.VECTORS.ACCUMULATORS``."""
    lanes, vectors, accumulators = (int(x) for x in name.split(".")[1:])
    layout = WaveLayout(lanes, vectors, accumulators)
    return _CHUNKS + _begin(layout) + _turns(layout) + _judge(layout) + _groups(name)


def _begin(layout: WaveLayout) -> str:
    """Text of the function that sets a workgroup up."""
    scalars = 4 * 256
    return f"""
define internal void @begin(ptr %context, ptr %group, i64 %index) #0 {{
entry:
{_get("lds", "lds", "ptr")}
{_get("lds_clear", "lds.size")}
  call void @clear(ptr %lds, i64 %lds.size)
{_get("waves", "waves")}
{_get("state_size", "size")}
{_get("template", "template", "ptr")}
{_get("ids", "ids", "ptr")}
{_get("id_count", "id.count")}
{_get("grid_x", "gx")}
{_get("grid_y", "gy")}
{_get("entry", "first")}
  %first.32 = trunc i64 %first to i32
  %x = urem i64 %index, %gx
  %yz = udiv i64 %index, %gx
  %y = urem i64 %yz, %gy
  %z = udiv i64 %yz, %gy
  br label %wave
wave:
  %w = phi i64 [ 0, %entry ], [ %w.next, %filled ]
  %offset = mul i64 %w, %size
  %state = getelementptr i8, ptr %group, i64 %offset
  call void @clear(ptr %state, i64 {layout.scalars})
  %own = getelementptr i8, ptr %template, i64 {scalars}
  %own.offset = mul i64 %w, {layout.register + 8}
  %item = getelementptr i8, ptr %own, i64 %own.offset
  call void @copy(ptr %state, ptr %item, i64 {layout.register})
  %s = getelementptr i8, ptr %state, i64 {layout.scalars}
  call void @copy(ptr %s, ptr %template, i64 {scalars})
  %exec.from = getelementptr i8, ptr %item, i64 {layout.register}
  %exec = load i64, ptr %exec.from, align 4
  %exec.to = getelementptr i8, ptr %s, i64 {4 * 126}
  store i64 %exec, ptr %exec.to, align 4
  %resume = getelementptr i8, ptr %state, i64 {layout.resume}
  store i32 %first.32, ptr %resume, align 4
  %status = getelementptr i8, ptr %state, i64 {layout.status}
  store i32 0, ptr %status, align 4
  br label %ids.loop
ids.loop:
  %n = phi i64 [ 0, %wave ], [ %n.next, %put ]
  %more = icmp ult i64 %n, %id.count
  br i1 %more, label %put, label %filled
put:
  %row = getelementptr [3 x i64], ptr %ids, i64 %n
  %place = load i64, ptr %row
  %axis.p = getelementptr i64, ptr %row, i64 1
  %axis = load i64, ptr %axis.p
  %shift.p = getelementptr i64, ptr %row, i64 2
  %shift = load i64, ptr %shift.p
  %is.x = icmp eq i64 %axis, 0
  %is.y = icmp eq i64 %axis, 1
  %yz.value = select i1 %is.y, i64 %y, i64 %z
  %number = select i1 %is.x, i64 %x, i64 %yz.value
  %shifted = shl i64 %number, %shift
  %word = trunc i64 %shifted to i32
  %to = getelementptr i8, ptr %s, i64 %place
  %before = load i32, ptr %to, align 4
  %both = or i32 %before, %word
  store i32 %both, ptr %to, align 4
  %n.next = add i64 %n, 1
  br label %ids.loop
filled:
  %w.next = add i64 %w, 1
  %w.more = icmp ult i64 %w.next, %waves
  br i1 %w.more, label %wave, label %done
done:
  ret void
}}
"""


def _turns(layout: WaveLayout) -> str:
    """Text of the function that runs a workgroup until it ends or cannot go on here."""
    return f"""
define internal i64 @group(ptr %context, ptr %group, ptr %scratch) #0 {{
entry:
{_get("waves", "waves")}
{_get("state_size", "size")}
{_get("slice", "slice")}
{_get("scratch_stride", "stride")}
{_get("kernel", "kernel", "ptr")}
  %private = mul i64 %stride, {layout.lanes}
  br label %round
round:
  br label %wave
wave:
  %w = phi i64 [ 0, %round ], [ %w.next, %after ]
  %living = phi i64 [ 0, %round ], [ %living.new, %after ]
  %parked = phi i64 [ 0, %round ], [ %parked.new, %after ]
  %tired = phi i64 [ 0, %round ], [ %tired.new, %after ]
  %offset = mul i64 %w, %size
  %state = getelementptr i8, ptr %group, i64 %offset
  %status.p = getelementptr i8, ptr %state, i64 {layout.status}
  %status = load i32, ptr %status.p, align 4
  switch i32 %status, label %ended [
    i32 0, label %run
    i32 1, label %held
    i32 3, label %yield ]
run:
{_put("fuel", "%slice")}
{_put("wave", "%w")}
  %private.at = mul i64 %w, %private
  %private.p = getelementptr i8, ptr %scratch, i64 %private.at
  %private.i = ptrtoint ptr %private.p to i64
{_put("scratch", "%private.i")}
  %result = call i32 %kernel(ptr %state, ptr %context)
  %result.64 = sext i32 %result to i64
{_put("result", "%result.64")}
{_get("fault", "fault")}
  %failed = icmp ne i64 %fault, 0
  br i1 %failed, label %event, label %sort
sort:
{_get("fuel", "left")}
{_get("used", "used")}
  %spent = sub i64 %slice, %left
  %used.new = add i64 %used, %spent
  store i64 %used.new, ptr %used.p, align 8
  switch i32 %result, label %event [
    i32 {END}, label %finish
    i32 {BARRIER}, label %park
    i32 {YIELD}, label %yield ]
event:
  ret i64 {EVENT}
finish:
  store i32 2, ptr %status.p, align 4
  br label %ended
park:
  store i32 1, ptr %status.p, align 4
  br label %held
yield:
  br label %after
held:
  br label %after
ended:
  br label %after
after:
  %alive = phi i64 [ 1, %yield ], [ 1, %held ], [ 0, %ended ]
  %waits = phi i64 [ 0, %yield ], [ 1, %held ], [ 0, %ended ]
  %spins = phi i64 [ 1, %yield ], [ 0, %held ], [ 0, %ended ]
  %living.new = add i64 %living, %alive
  %parked.new = add i64 %parked, %waits
  %tired.new = add i64 %tired, %spins
  %w.next = add i64 %w, 1
  %more = icmp ult i64 %w.next, %waves
  br i1 %more, label %wave, label %judge
"""


def _judge(layout: WaveLayout) -> str:
    """Text of the end of that function: after each wave has had its turn."""
    return f"""judge:
  %any = icmp ne i64 %living.new, 0
  br i1 %any, label %open, label %done
open:
  %all = icmp eq i64 %living.new, %parked.new
  br i1 %all, label %release, label %wait
release:
  %r = phi i64 [ 0, %open ], [ %r.next, %kept ]
  %r.offset = mul i64 %r, %size
  %r.state = getelementptr i8, ptr %group, i64 %r.offset
  %r.p = getelementptr i8, ptr %r.state, i64 {layout.status}
  %r.status = load i32, ptr %r.p, align 4
  %is.held = icmp eq i32 %r.status, 1
  br i1 %is.held, label %free, label %kept
free:
  store i32 0, ptr %r.p, align 4
  br label %kept
kept:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %waves
  br i1 %r.more, label %release, label %round
wait:
  %idle = icmp eq i64 %tired.new, 0
  br i1 %idle, label %round, label %leave
leave:
  ret i64 {WAITING}
done:
  ret i64 {DONE}
}}
"""


def _groups(name: str) -> str:
    """Text of the exported functions."""
    return f"""
define i64 @"{name}.group"(ptr %context, ptr %group, ptr %scratch) #0 {{
  %result = call i64 @group(ptr %context, ptr %group, ptr %scratch)
  ret i64 %result
}}
define void @"{name}.begin"(ptr %context, ptr %group, i64 %index) #0 {{
  call void @begin(ptr %context, ptr %group, i64 %index)
  ret void
}}
define i64 @"{name}"(ptr %context, ptr %group, ptr %scratch, i64 %from, i64 %to, i64 %limit) #0 {{
entry:
  br label %next
next:
  %n = phi i64 [ %from, %entry ], [ %n.next, %ended ]
  %more = icmp ult i64 %n, %to
  br i1 %more, label %check, label %all
check:
{_get("used", "used")}
  %over = icmp ugt i64 %used, %limit
  br i1 %over, label %stopped, label %run
run:
{_put("group", "%n")}
  call void @begin(ptr %context, ptr %group, i64 %n)
  %result = call i64 @group(ptr %context, ptr %group, ptr %scratch)
  %done = icmp eq i64 %result, {DONE}
  br i1 %done, label %ended, label %handed
ended:
  %n.next = add i64 %n, 1
  br label %next
stopped:
{_put("group", "%n").replace("put.group", "put.group2")}
  ret i64 {STOPPED}
handed:
  ret i64 %result
all:
{_put("group", "%to").replace("put.group", "put.group3")}
  ret i64 {DONE}
}}
"""
