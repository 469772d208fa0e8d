"""LLVM IR of the native call path: reads Python arguments, packs them, calls the host stub.

One routine serves every launcher. It has the signature of a Python builtin (``METH_FASTCALL``)
whose `self` is a *plan*: a ``bytes`` object made by `flydsl.compiler.direct`, an array of 64-bit
words that says what each argument must be and where its scalars go. Whatever is not as planned
makes the routine return the plan's `MISS` object; then the Python closure looks at the arguments.

The code holds no address: functions of the interpreter are words of the plan. It relies on two
facts of CPython that `flydsl.compiler.direct` verifies: a ``bytes`` object's content begins at
`PLAN_START`, and an object's type is the word at `TYPE_OFFSET`.

Source of the tensor structures: DLPack 1.3, ``DLTensor`` and ``DLPackExchangeAPI``.
"""

from __future__ import annotations

from flydsl.codegen.ir_text import IrText
from flydsl.compiler.direct_plan import (
    BLOCK_BYTES,
    ENTRY,
    PLAN_START,
    SHORT_TICKS,
    TYPE_OFFSET,
    Kind,
    Word,
)

__all__ = ["llvm_ir"]

_DATA, _DEVICE, _RANK, _DTYPE, _SHAPE, _STRIDES, _BYTE_OFFSET = 0, 8, 16, 20, 24, 32, 40


class _Routine(IrText):
    """The routine's body; every method that checks leaves for ``miss`` when the check fails."""

    def word(self, word: int, type_: str = "i64") -> str:
        return self.load(type_, "%plan", 8 * word)

    def field(self, word: int, type_: str = "i64") -> str:
        return self.load(type_, "%record", 8 * word)

    def require(self, condition: str, otherwise: str = "miss") -> None:
        label = self.fresh("ok")
        self.branch(condition, label, otherwise)
        self.begin(label)

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def target(self, offset: str) -> str:
        return self.value(f"getelementptr i8, ptr %block, i64 {offset}")

    def put(self, value: str, offset: str, width: str) -> None:
        """Store an i64 in `width` bytes of the argument block."""
        place = self.target(offset)
        done = self.fresh("stored")
        for bits in (64, 32, 16):
            fits = self.value(f"icmp eq i64 {width}, {bits // 8}")
            here, further = self.fresh("wide"), self.fresh("narrow")
            self.branch(fits, here, further)
            self.begin(here)
            part = value if bits == 64 else self.value(f"trunc i64 {value} to i{bits}")
            self.lines.append(f"  store i{bits} {part}, ptr {place}, align 1")
            self.jump(done)
            self.begin(further)
        part = self.value(f"trunc i64 {value} to i8")
        self.lines.append(f"  store i8 {part}, ptr {place}, align 1")
        self.jump(done)
        self.begin(done)

    def no_error(self, suspicious: str) -> None:
        """Where `suspicious` holds, an exception may have been raised: then clear it and miss."""
        ask, fine = self.fresh("ask"), self.fresh("fine")
        self.branch(suspicious, ask, fine)
        self.begin(ask)
        error = self.value(f"call ptr {self.word(Word.OCCURRED, 'ptr')}()")
        none = self.value(f"icmp eq ptr {error}, null")
        self.branch(none, fine, "error")
        self.begin(fine)

    def unsigned(self, number: str) -> str:
        """Return a Python integer as 64 bits and release it; null stands for an exception."""
        self.require(self.value(f"icmp ne ptr {number}, null"), "error")
        value = self.value(f"call i64 {self.word(Word.AS_UNSIGNED, 'ptr')}(ptr {number})")
        self.lines.append(f"  call void {self.word(Word.DECREF, 'ptr')}(ptr {number})")
        self.no_error(self.value(f"icmp eq i64 {value}, -1"))
        return value

    def current_stream(self) -> str:
        """Return the current stream's handle, as the plan's function tells it."""
        function = self.word(Word.STREAM, "ptr")
        return self.unsigned(
            self.value(f"call ptr {self.word(Word.CALL_BARE, 'ptr')}(ptr {function})")
        )


def _integer(out: _Routine) -> None:
    value = out.value(f"call i64 {out.word(Word.AS_LONG_LONG, 'ptr')}(ptr %object)")
    out.no_error(out.value(f"icmp eq i64 {value}, -1"))
    out.require(out.value(f"icmp sge i64 {value}, {out.field(5)}"))
    out.require(out.value(f"icmp sle i64 {value}, {out.field(6)}"))
    out.put(value, out.field(7), out.field(8))


def _unsigned(out: _Routine) -> None:
    value = out.value(f"call i64 {out.word(Word.AS_UNSIGNED, 'ptr')}(ptr %object)")
    out.no_error(out.value(f"icmp eq i64 {value}, -1"))
    out.put(value, out.field(7), "8")


def _float(out: _Routine) -> None:
    value = out.value(f"call double {out.word(Word.AS_DOUBLE, 'ptr')}(ptr %object)")
    bits = out.value(f"bitcast double {value} to i64")
    narrow = out.value(f"fptrunc double {value} to float")
    small = out.value(f"bitcast float {narrow} to i32")
    # A finite value that becomes infinite is out of range. Compared as bits, because constants of
    # floating-point types would need a data section.
    exponent = out.value(f"and i64 {bits}, {0x7FF << 52}")
    finite = out.value(f"icmp ne i64 {exponent}, {0x7FF << 52}")
    infinite = out.value(f"icmp eq i32 {out.value(f'and i32 {small}, 2147483647')}, {0xFF << 23}")
    single = out.value(f"icmp eq i64 {out.field(8)}, 4")
    overflow = out.value(f"and i1 {finite}, {infinite}")
    bad = out.value(f"and i1 {single}, {overflow}")
    out.require(out.value(f"xor i1 {bad}, true"))
    wide = out.value(f"zext i32 {small} to i64")
    out.put(out.value(f"select i1 {single}, i64 {wide}, i64 {bits}"), out.field(7), out.field(8))


def _attribute(out: _Routine) -> None:
    where, known, read = out.field(8, "ptr"), out.fresh("known"), out.fresh("read")
    out.branch(out.value(f"icmp eq ptr {where}, null"), read, known)
    out.begin(known)
    found = out.value(f"call ptr {out.word(Word.GET_ATTRIBUTE, 'ptr')}(ptr %object, ptr {where})")
    out.require(out.value(f"icmp eq i64 {out.unsigned(found)}, {out.field(9)}"))
    out.jump(read)
    out.begin(read)
    name = out.field(5, "ptr")
    found = out.value(f"call ptr {out.word(Word.GET_ATTRIBUTE, 'ptr')}(ptr %object, ptr {name})")
    out.put(out.unsigned(found), out.field(7), "8")


def _current(out: _Routine) -> None:
    out.put(out.current_stream(), out.field(7), "8")


def _tensor(out: _Routine) -> None:
    status = out.value(f"call i32 {out.field(5, 'ptr')}(ptr %object, ptr %tensor)")
    out.require(out.value(f"icmp eq i32 {status}, 0"), "error")
    dtype = out.value(f"zext i32 {out.load('i32', '%tensor', _DTYPE)} to i64")
    out.require(out.value(f"icmp eq i64 {dtype}, {out.field(6)}"))
    device = out.load("i64", "%tensor", _DEVICE)
    out.require(out.value(f"icmp eq i64 {device}, {out.field(7)}"))
    rank = out.value(f"zext i32 {out.load('i32', '%tensor', _RANK)} to i64")
    out.require(out.value(f"icmp eq i64 {rank}, {out.field(8)}"))
    shape, strides = out.load("ptr", "%tensor", _SHAPE), out.load("ptr", "%tensor", _STRIDES)
    out.require(out.value(f"icmp ne ptr {strides}, null"))
    data = out.load("i64", "%tensor", _DATA)
    address = out.value(f"add i64 {data}, {out.load('i64', '%tensor', _BYTE_OFFSET)}")
    _check_plain(out)
    capped = out.value(f"or i64 {address}, 16")
    lowest = out.value(f"and i64 {capped}, {out.value(f'sub i64 0, {capped}')}")
    out.require(out.value(f"icmp eq i64 {lowest}, {out.field(9)}"))
    out.put(address, out.field(12), "8")
    _check_axes(out, shape, strides, rank, address)
    _copy_leaves(out, shape, strides)


def _check_plain(out: _Routine) -> None:
    """Check that a tensor's memory holds its values, by a flag of it or by a method."""
    where, name = out.field(15), out.field(14, "ptr")
    flagged, unflagged, ask, plain = (
        out.fresh(label) for label in ("flagged", "unflagged", "ask", "plain")
    )
    out.branch(out.value(f"icmp eq i64 {where}, 0"), unflagged, flagged)
    out.begin(flagged)
    structure = out.value(
        f"load ptr, ptr {out.value(f'getelementptr i8, ptr %object, i64 {where}')}"
    )
    place = out.value(f"getelementptr i8, ptr {structure}, i64 {out.field(16)}")
    flags = out.value(f"and i64 {out.value(f'load i64, ptr {place}')}, {out.field(17)}")
    out.branch(out.value(f"icmp eq i64 {flags}, 0"), plain, "miss")
    out.begin(unflagged)
    out.branch(out.value(f"icmp eq ptr {name}, null"), plain, ask)
    out.begin(ask)
    get, call = out.word(Word.GET_ATTRIBUTE, "ptr"), out.word(Word.CALL_BARE, "ptr")
    method = out.value(f"call ptr {get}(ptr %object, ptr {name})")
    out.require(out.value(f"icmp ne ptr {method}, null"), "error")
    result = out.value(f"call ptr {call}(ptr {method})")
    out.lines.append(f"  call void {out.word(Word.DECREF, 'ptr')}(ptr {method})")
    out.require(out.value(f"icmp ne ptr {result}, null"), "error")
    out.lines.append(f"  call void {out.word(Word.DECREF, 'ptr')}(ptr {result})")
    wanted = out.word(Word.FALSE, "ptr")
    out.branch(out.value(f"icmp eq ptr {result}, {wanted}"), plain, "miss")
    out.begin(plain)


def _check_axes(out: _Routine, shape: str, strides: str, rank: str, address: str) -> None:
    """Every extent has the width, and every stride the kind, that the code was compiled for.

    Without memory there must be no elements either.
    """
    before = out.block
    unit, wide = out.field(10), out.field(11)
    any_unit = out.value(f"icmp slt i64 {unit}, 0")
    out.jump("axes")
    out.begin("axes")
    axis, following = "%axis", "%axis_next"
    out.lines.append(f"  {axis} = phi i64 [ 0, %{before} ], [ {following}, %axis_done ]")
    out.lines.append(f"  %full = phi i1 [ true, %{before} ], [ %full_next, %axis_done ]")
    out.branch(out.value(f"icmp ult i64 {axis}, {rank}"), "axis_check", "leaves_begin")
    out.begin("axis_check")
    extent = out.value(f"load i64, ptr {out.value(f'getelementptr i64, ptr {shape}, i64 {axis}')}")
    some = out.value(f"icmp ne i64 {extent}, 0")
    out.lines.append(f"  %full_next = and i1 %full, {some}")
    large = out.value(f"icmp sgt i64 {extent}, {2**31 - 1}")
    expected = out.value(f"trunc i64 {out.value(f'lshr i64 {wide}, {axis}')} to i1")
    out.require(out.value(f"icmp eq i1 {large}, {expected}"))
    place = out.value(f"getelementptr i64, ptr {strides}, i64 {axis}")
    one = out.value(f"icmp eq i64 {out.value(f'load i64, ptr {place}')}, 1")
    is_unit = out.value(f"icmp eq i64 {axis}, {unit}")
    # On the unit axis the stride must be one; without a unit axis none may be.
    bad_unit = out.value(f"and i1 {is_unit}, {out.value(f'xor i1 {one}, true')}")
    bad_other = out.value(f"and i1 {any_unit}, {one}")
    bad = out.value(f"or i1 {bad_unit}, {bad_other}")
    out.require(out.value(f"xor i1 {bad}, true"))
    out.jump("axis_done")
    out.begin("axis_done")
    out.lines.append(f"  {following} = add i64 {axis}, 1")
    out.jump("axes")
    out.begin("leaves_begin")
    memory = out.value(f"icmp ne i64 {address}, 0")
    out.require(out.value(f"or i1 {memory}, {out.value('xor i1 %full, true')}"))


def _copy_leaves(out: _Routine, shape: str, strides: str) -> None:
    before, count = out.block, out.field(13)
    out.jump("leaves")
    out.begin("leaves")
    leaf, following = "%leaf", "%leaf_next"
    out.lines.append(f"  {leaf} = phi i64 [ 0, %{before} ], [ {following}, %leaf_done ]")
    out.branch(out.value(f"icmp ult i64 {leaf}, {count}"), "leaf_copy", "next")
    out.begin("leaf_copy")
    index = out.value(f"add i64 {leaf}, 18")
    code = out.value(f"load i64, ptr {out.value(f'getelementptr i64, ptr %record, i64 {index}')}")
    axis = out.value(f"and i64 {code}, 255")
    width = out.value(f"and i64 {out.value(f'lshr i64 {code}, 16')}, 65535")
    offset = out.value(f"lshr i64 {code}, 32")
    of_stride = out.value(f"trunc i64 {out.value(f'lshr i64 {code}, 8')} to i1")
    source = out.value(f"select i1 {of_stride}, ptr {strides}, ptr {shape}")
    place = out.value(f"getelementptr i64, ptr {source}, i64 {axis}")
    out.put(out.value(f"load i64, ptr {place}"), offset, width)
    out.jump("leaf_done")
    out.begin("leaf_done")
    out.lines.append(f"  {following} = add i64 {leaf}, 1")
    out.jump("leaves")


def _struct(out: _Routine) -> None:
    """Note the dictionary that holds a struct's fields; the struct keeps it alive."""
    name = out.field(5, "ptr")
    found = out.value(f"call ptr {out.word(Word.GET_ATTRIBUTE, 'ptr')}(ptr %object, ptr {name})")
    out.require(out.value(f"icmp ne ptr {found}, null"), "error")
    out.lines.append(f"  call void {out.word(Word.DECREF, 'ptr')}(ptr {found})")
    out.lines.append(f"  store ptr {found}, ptr %fields")


def _known(out: _Routine) -> None:
    """Refuse other values than the one that was compiled in, and what only Python can compare."""
    done, other, none, some = (out.fresh(label) for label in ("known", "other", "none", "some"))
    out.branch(out.value(f"icmp eq ptr %object, {out.field(5, 'ptr')}"), done, other)
    out.begin(other)
    is_none = out.value(f"icmp eq ptr %object, {out.word(Word.DONE, 'ptr')}")
    out.branch(is_none, none, some)
    out.begin(none)
    out.branch(out.value(f"icmp ne i64 {out.field(9)}, 0"), done, "miss")
    out.begin(some)
    kind = out.load("ptr", "%object", TYPE_OFFSET)
    out.require(out.value(f"icmp eq ptr {kind}, {out.field(6, 'ptr')}"))
    out.require(out.value(f"icmp ne i64 {out.field(7)}, 0"))
    value = out.value(f"call i64 {out.word(Word.AS_LONG_LONG, 'ptr')}(ptr %object)")
    out.no_error(out.value(f"icmp eq i64 {value}, -1"))
    out.require(out.value(f"icmp eq i64 {value}, {out.field(8)}"))
    out.jump(done)
    out.begin(done)


def _same(out: _Routine) -> None:
    """Refuse another value than the one that was compiled in, as a Python function tells."""
    done, other = out.fresh("same"), out.fresh("another")
    out.branch(out.value(f"icmp eq ptr %object, {out.field(5, 'ptr')}"), done, other)
    out.begin(other)
    ask = out.field(6, "ptr")
    result = out.value(f"call ptr {out.word(Word.CALL, 'ptr')}(ptr {ask}, ptr %object)")
    out.require(out.value(f"icmp ne ptr {result}, null"), "error")
    out.lines.append(f"  call void {out.word(Word.DECREF, 'ptr')}(ptr {result})")
    out.branch(out.value(f"icmp eq ptr {result}, {out.word(Word.FALSE, 'ptr')}"), "miss", done)
    out.begin(done)


_READERS = {
    Kind.SAME: _same,
    Kind.KNOWN: _known,
    Kind.INTEGER: _integer,
    Kind.UNSIGNED: _unsigned,
    Kind.FLOAT: _float,
    Kind.ATTRIBUTE: _attribute,
    Kind.CURRENT: _current,
    Kind.STRUCT: _struct,
}


def _arguments(out: _Routine) -> None:
    """The loop over the arguments: type check, then one reader a kind."""
    count = out.word(Word.COUNT)
    out.lines.append(f"  %records = getelementptr i8, ptr %plan, i64 {8 * Word.RECORDS}")
    out.require(out.value(f"icmp eq i64 {count}, %given"))
    before = out.block
    out.jump("loop")
    out.begin("loop")
    out.lines += [
        f"  %r = phi i64 [ 0, %{before} ], [ %r_next, %next ]",
        f"  %i = phi i64 [ 0, %{before} ], [ %i_next, %next ]",
        f"  %record = phi ptr [ %records, %{before} ], [ %record_next, %next ]",
    ]
    out.branch(out.value(f"icmp ult i64 %r, {out.word(Word.RECORD_COUNT)}"), "argument", "launch")
    out.begin("argument")
    name = out.field(3, "ptr")
    out.branch(out.value(f"icmp eq ptr {name}, null"), "positional", "field")
    out.begin("positional")
    out.lines.append("  %slot = getelementptr ptr, ptr %args, i64 %i")
    out.lines.append("  %given_object = load ptr, ptr %slot")
    out.jump("read")
    out.begin("field")
    held = out.value("load ptr, ptr %fields")
    found = out.value(f"call ptr {out.word(Word.GET_ITEM, 'ptr')}(ptr {held}, ptr {name})")
    out.require(out.value(f"icmp ne ptr {found}, null"))
    field = out.block
    out.jump("read")
    out.begin("read")
    out.lines.append(f"  %whole = phi ptr [ %given_object, %positional ], [ {found}, %{field} ]")
    out.lines.append(f"  %step = phi i64 [ 1, %positional ], [ 0, %{field} ]")
    kind, wanted = out.field(0), out.field(2, "ptr")
    actual = out.load("ptr", "%whole", TYPE_OFFSET)
    free = out.value(f"icmp eq ptr {wanted}, null")
    fits = out.value(f"icmp eq ptr {wanted}, {actual}")
    out.require(out.value(f"or i1 {free}, {fits}"))
    _inner(out)
    for number, read in _READERS.items():
        here, further = out.fresh("kind"), out.fresh("other")
        out.branch(out.value(f"icmp eq i64 {kind}, {int(number)}"), here, further)
        out.begin(here)
        read(out)
        out.jump("next")
        out.begin(further)
    out.branch(out.value(f"icmp eq i64 {kind}, {int(Kind.TENSOR)}"), "tensor_read", "no_tensor")
    out.begin("no_tensor")
    out.jump("next")
    out.begin("tensor_read")
    _tensor(out)
    out.begin("next")
    size = out.field(1)
    out.lines += [
        f"  %record_next = getelementptr i64, ptr %record, i64 {size}",
        "  %r_next = add i64 %r, 1",
        "  %i_next = add i64 %i, %step",
    ]
    out.jump("loop")


def _inner(out: _Routine) -> None:
    """Go from an object to the attribute of it that holds its value, if the record names one."""
    via, whole = out.field(4, "ptr"), out.block
    out.branch(out.value(f"icmp eq ptr {via}, null"), "plain", "boxed")
    out.begin("boxed")
    found = out.value(f"call ptr {out.word(Word.GET_ATTRIBUTE, 'ptr')}(ptr %whole, ptr {via})")
    out.require(out.value(f"icmp ne ptr {found}, null"), "error")
    # The object keeps it alive: its count, the first word, then is more than the one given here.
    count = out.load("i64", found, 0)
    out.lines.append(f"  call void {out.word(Word.DECREF, 'ptr')}(ptr {found})")
    out.require(out.value(f"icmp ugt i64 {count}, 1"))
    boxed = out.block
    out.jump("plain")
    out.begin("plain")
    out.lines.append(f"  %object = phi ptr [ %whole, %{whole} ], [ {found}, %{boxed} ]")


def _timed(out: _Routine, save: str, ticks: str, call: str) -> str:
    """Launch, with the interpreter's lock while launches are short; note how long it took."""
    before = out.value(f"load i64, ptr {ticks}")
    out.branch(out.value(f"icmp ult i64 {before}, {SHORT_TICKS}"), "short", "long")
    out.begin("long")
    state = out.value(f"call ptr {save}()")
    out.jump("short")
    out.begin("short")
    kept = out.value(f"phi ptr [ null, %measured ], [ {state}, %long ]")
    started = out.value("call i64 @llvm.readcyclecounter()")
    status = out.value(call)
    taken = out.value(f"sub i64 {out.value('call i64 @llvm.readcyclecounter()')}, {started}")
    # Something else may have run in between.
    most = SHORT_TICKS * 8
    large = out.value(f"icmp ugt i64 {taken}, {most}")
    bounded = out.value(f"select i1 {large}, i64 {most}, i64 {taken}")
    older = out.value(f"sub i64 {before}, {out.value(f'lshr i64 {before}, 2')}")
    now = out.value(f"add i64 {older}, {out.value(f'lshr i64 {bounded}, 2')}")
    out.lines.append(f"  store i64 {now}, ptr {ticks}")
    out.branch(out.value(f"icmp eq ptr {kept}, null"), "timed", "restore")
    out.begin("restore")
    out.lines.append(f"  call void {out.word(Word.RESTORE, 'ptr')}(ptr {kept})")
    out.jump("timed")
    out.begin("timed")
    return status


def _launch(out: _Routine) -> None:
    out.begin("launch")
    offset = out.word(Word.STREAM_OFFSET)
    out.branch(out.value(f"icmp sge i64 {offset}, 0"), "implicit", "go")
    out.begin("implicit")
    out.put(out.current_stream(), offset, "8")
    out.jump("go")
    out.begin("go")
    # The launch may wait for room in the device's queue; other threads go on meanwhile. Where
    # launches have been short, handing the lock over and back would take longer than they do. A
    # runtime that promises not to wait has no function for it.
    save, ticks = out.word(Word.SAVE, "ptr"), out.word(Word.TICKS, "ptr")
    context, stub = out.word(Word.CONTEXT, "ptr"), out.word(Word.STUB, "ptr")
    call = f"call i32 {stub}(ptr {context}, ptr %block)"
    out.branch(out.value(f"icmp eq ptr {save}, null"), "held", "may_release")
    out.begin("held")
    held = out.value(call)
    out.jump("launched")
    out.begin("may_release")
    out.branch(out.value(f"icmp eq ptr {ticks}, null"), "unmeasured", "measured")
    out.begin("unmeasured")
    state = out.value(f"call ptr {save}()")
    released = out.value(call)
    out.lines.append(f"  call void {out.word(Word.RESTORE, 'ptr')}(ptr {state})")
    out.jump("launched")
    out.begin("measured")
    timed = _timed(out, save, ticks, call)
    done = out.block
    out.jump("launched")
    out.begin("launched")
    status = out.value(
        f"phi i32 [ {held}, %held ], [ {released}, %unmeasured ], [ {timed}, %{done} ]"
    )
    out.branch(out.value(f"icmp eq i32 {status}, 0"), "done", "failed")
    out.begin("failed")
    wide = out.value(f"sext i32 {status} to i64")
    number = out.value(f"call ptr {out.word(Word.FROM_LONG, 'ptr')}(i64 {wide})")
    fail = out.word(Word.FAIL, "ptr")
    raised = out.value(f"call ptr {out.word(Word.CALL, 'ptr')}(ptr {fail}, ptr {number})")
    out.lines.append(f"  call void {out.word(Word.DECREF, 'ptr')}(ptr {number})")
    out.lines.append(f"  ret ptr {raised}")
    for label, word in (("done", Word.DONE), ("miss", Word.MISS)):
        out.begin(label)
        result = out.word(word, "ptr")
        out.lines.append(f"  call void {out.word(Word.INCREF, 'ptr')}(ptr {result})")
        out.lines.append(f"  ret ptr {result}")
    out.begin("error")
    out.lines.append(f"  call void {out.word(Word.CLEAR, 'ptr')}()")
    out.jump("miss")


def llvm_ir() -> str:
    """Return the module that defines `ENTRY`."""
    out = _Routine()
    _arguments(out)
    _launch(out)
    return "\n".join(
        [
            "declare i64 @llvm.readcyclecounter()",
            f"define ptr @{ENTRY}(ptr %self, ptr %args, i64 %given) nounwind {{",
            "entry:",
            f"  %block = alloca [{BLOCK_BYTES} x i8], align 16",
            "  %tensor = alloca [48 x i8], align 8",
            "  %fields = alloca ptr",
            f"  %plan = getelementptr i8, ptr %self, i64 {PLAN_START}",
            *out.lines,
            "}\n",
        ]
    )
