"""Shared memory of a block: `SharedAllocator`, and scratch memory of extensions."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import user_location
from flydsl.errors import UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import KernelScope, Session, SharedUse, require
from flydsl.expr.emit import located
from flydsl.expr.numeric import BY_TEXT
from flydsl.expr.pointers import Pointer, get_dyn_shared
from flydsl.expr.storage import (
    StructStorage,
    checked_alignment,
    is_struct_type,
    open_storage,
    size_and_align,
)

__all__ = ["Arena", "SharedAllocator", "scratch", "scratch_turn"]


class Arena:
    """A bump allocator over one block of memory.

    Args:
        base_alignment: Bytes that plain byte allocations are aligned to.
    """

    def __init__(self, base_alignment: int = 16) -> None:
        self.base_alignment = checked_alignment(base_alignment, 1)
        self.allocated_bytes = 0

    def _request(self, kind: Any, alignment: Any) -> tuple[int, int]:
        """Return size and alignment of an allocation."""
        if isinstance(kind, int) and not isinstance(kind, bool):
            if kind < 1:
                raise UserValueError(
                    "an allocation has at least one byte", code="FLY-U259", value=kind
                )
            size, natural = kind, self.base_alignment
        else:
            size, natural = size_and_align(kind)
        return size, natural if alignment is None else checked_alignment(alignment, 1)

    def _reserve(self, size: int, alignment: int) -> int:
        """Return the offset of the next `size` bytes at a multiple of `alignment`.

        Nothing is left out before an allocation without bytes.
        """
        if not size:
            return self.allocated_bytes
        offset = -(-self.allocated_bytes // alignment) * alignment
        self.allocated_bytes = offset + size
        return offset


class SharedAllocator(Arena):
    """Allocates shared memory in a kernel; make one per kernel.

    Args:
        base_alignment: Least alignment of every allocation in bytes, so that vectors can be loaded
            from and stored to arrays of narrow elements.
        static: Each allocation becomes a fixed block of its own that the code object declares.
            Otherwise allocations are offsets into the dynamic shared memory of the launch, whose
            size the launch infers.

    Raises:
        UserRuntimeError: Outside a kernel, or the kernel has an allocator already.
    """

    def __init__(self, base_alignment: int = 16, *, static: bool = True) -> None:
        super().__init__(base_alignment)
        session = _kernel_session("SharedAllocator")
        assert session.kernel is not None
        if session.kernel.shared_allocator is not None:
            raise UserRuntimeError(
                "this kernel has a shared allocator already",
                code="FLY-U259",
                hint="pass the first one to the helpers that allocate",
            )
        self.is_static = static
        self._scope = session.kernel
        self._scope.shared_allocator = self

    @property
    def base_ptr(self) -> Pointer:
        """Pointer to the start of the dynamic shared memory.

        Raises:
            UserRuntimeError: The allocator is static.
        """
        if self.is_static:
            raise UserRuntimeError(
                "a static allocator has no common base", code="FLY-U259", hint="use static=False"
            )
        return get_dyn_shared()

    def allocate(self, kind: Any, alignment: int | None = None) -> Any:
        """Allocate memory for a type, or a number of bytes.

        Args:
            kind: ``fx.Array[T, n]``, a numeric class, a vector type, ``fx.Align[T, n]``, a struct
                or union, or a number of bytes.
            alignment: Bytes; default: that of the type, at least `base_alignment`.

        Returns:
            An `Array`, a `Storage`, or for bytes a `Pointer` to `Int8`. The fields of a struct
            that a static allocator makes without `alignment` are allocated one by one, so that
            each array begins at `base_alignment`.

        Raises:
            UserError: The type cannot be stored, or the kernel is not being traced any more.
        """
        session = require("allocate")
        if session.kernel is not self._scope:
            raise UserRuntimeError("the allocator belongs to another kernel", code="FLY-U259")
        if self.is_static and alignment is None and _has_fields(kind):
            parts = {f.name: self.allocate(f.kind) for f in kind.fields if not f.constexpr}
            return StructStorage(None, kind, parts)
        size, natural = self._request(kind, alignment)
        wanted = max(natural, self.base_alignment) if alignment is None else natural
        if self.is_static:
            self._reserve(size, wanted)
            pointer = _static_block(self._scope, size, wanted)
        else:
            pointer = self._dynamic(size, wanted)
        what = "bytes" if isinstance(kind, int) else repr(kind)
        use = SharedUse(what, size, wanted, user_location(), not self.is_static)
        self._scope.shared_uses.append(use)
        return pointer if isinstance(kind, int) else open_storage(pointer, kind)

    def _dynamic(self, size: int, alignment: int) -> Pointer:
        if alignment > 1024:
            raise UserTypeError(
                "dynamic shared memory is aligned to 1024 bytes", code="FLY-U259", value=alignment
            )
        offset = self._reserve(size, alignment)
        self._scope.shared_bytes = self.allocated_bytes
        base = get_dyn_shared()
        return base + offset if offset else base


def _has_fields(kind: Any) -> bool:
    """Return whether a type is a struct whose fields can lie apart."""
    return is_struct_type(kind) and not kind.is_union


def _static_block(scope: KernelScope, size: int, alignment: int, prefix: str = "shared") -> Pointer:
    from flydsl.dialects import fly
    from flydsl.dialects.fly_types import PtrType

    names = scope.statics if prefix == "shared" else scope.scratch
    symbol = f"{scope.name}_{prefix}_{len(names)}"
    if prefix == "shared":
        scope.statics.append(symbol)
    # The back end joins loads of neighbours up to the alignment, past the end of the last one.
    size = -(-size // alignment) * alignment
    with located():
        value = fly.alloca(PtrType("i8", "shared", alignment), size, symbol)
    return Pointer(value, None, BY_TEXT["i8"])


def scratch_turn(key: object) -> tuple[str, bool]:
    """Return which of the kernel's scratch allocations for `key` a call at this point uses.

    Straight-line code uses two in turn: between the uses of one, all threads pass the barrier of a
    use of the other, so a use need not wait for the readers of the one before. In a dynamic region
    one allocation serves, and every use must begin with a barrier.

    Args:
        key: What the calls that share allocations have in common.

    Returns:
        A name to make part of the key for `scratch`, and whether no barrier is needed before.
    """
    session = _kernel_session("scratch memory")
    assert session.kernel is not None
    if session.depth:
        return "region", False
    turns = session.kernel.scratch_turns
    turns[key] = turn = turns.get(key, 0) + 1
    return f"turn {turn % 2}", True


def scratch(key: object, kind: Any) -> Any:
    """Return a static allocation that all calls with this key in the kernel share.

    It is made at the kernel's entry, so that it may be asked for in any region.

    Args:
        key: What identifies it.
        kind: Type to allocate.

    Raises:
        UserError: Outside a kernel, or the type cannot be stored.
    """
    session = _kernel_session("scratch memory")
    scope = session.kernel
    assert scope is not None
    found = scope.scratch.get(key)
    if found is None:
        size, alignment = size_and_align(kind)
        alignment = max(alignment, 16)
        with session.ir.InsertionPoint.at_block_begin(scope.entry):
            place = _static_block(scope, size, alignment, "scratch")
            found = scope.scratch[key] = open_storage(place, kind)
        use = SharedUse(repr(kind), size, alignment, user_location(), False)
        scope.scratch_uses.append(use)
    return found


def _kernel_session(what: str) -> Session:
    session = require(what)
    if session.kernel is None:
        raise UserRuntimeError("shared memory is allocated inside a kernel", code="FLY-U253")
    return session
