"""Thread and block indices, barriers and lane shuffles (``fx.gpu``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flydsl.errors import UserAttributeError, UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import Session, require
from flydsl.expr.emit import emit, emit_op
from flydsl.expr.numeric import Boolean, Int32, Numeric, as_numeric
from flydsl.expr.vector import Vector

__all__ = [
    "barrier",
    "block_dim",
    "block_id",
    "block_idx",
    "grid_dim",
    "known_block_size",
    "lane_id",
    "num_warp_threads",
    "shuffle",
    "shuffle_down",
    "shuffle_idx",
    "shuffle_up",
    "shuffle_xor",
    "thread_id",
    "thread_idx",
]

_AXES = ("x", "y", "z")


def _kernel(what: str) -> Session:
    session = require(what)
    if session.kernel is None:
        raise UserRuntimeError(
            f"{what} has no meaning in a launcher",
            code="FLY-U253",
            hint="use it in a @flyc.kernel function or a helper called from one",
        )
    return session


def _identity(operation: str, axis: str) -> Int32:
    if axis not in _AXES:
        raise UserValueError(
            "there is no such axis", code="FLY-U253", value=axis, allowed="x, y, z"
        )
    session = _kernel(operation)
    key = ("dimension", axis)
    dimension = session.attributes.get(key)
    if dimension is None:
        dimension = session.ir.Attribute.parse(f"#gpu<dim {axis}>")
        session.attributes[key] = dimension
    index = emit(operation, session.type("index"), (), {"dimension": dimension})
    return Int32.wrap(emit("arith.index_cast", session.type("i32"), (index,)))


class Index3:
    """Three indices or extents, as attributes `x`, `y`, `z`, or by iterating."""

    __slots__ = ("_name", "_operation")

    def __init__(self, name: str, operation: str) -> None:
        self._name = name
        self._operation = operation

    @property
    def x(self) -> Int32:
        """Along x."""
        return _identity(self._operation, "x")

    @property
    def y(self) -> Int32:
        """Along y."""
        return _identity(self._operation, "y")

    @property
    def z(self) -> Int32:
        """Along z."""
        return _identity(self._operation, "z")

    def __iter__(self) -> Iterator[Int32]:
        return (_identity(self._operation, axis) for axis in _AXES)

    def __getattr__(self, name: str) -> Any:
        raise UserAttributeError(
            f"{self._name} has no attribute {name!r}", code="FLY-U253", allowed="x, y, z"
        )

    def __repr__(self) -> str:
        return f"fx.{self._name}"


thread_idx = Index3("thread_idx", "gpu.thread_id")
block_idx = Index3("block_idx", "gpu.block_id")
block_dim = Index3("block_dim", "gpu.block_dim")
grid_dim = Index3("grid_dim", "gpu.grid_dim")


def thread_id(axis: str = "x") -> Int32:
    """Return the thread's index in its block along ``"x"``, ``"y"`` or ``"z"``."""
    return _identity("gpu.thread_id", axis)


def block_id(axis: str = "x") -> Int32:
    """Return the block's index in the grid along ``"x"``, ``"y"`` or ``"z"``."""
    return _identity("gpu.block_id", axis)


def lane_id() -> Int32:
    """Return the thread's number in its warp."""
    session = _kernel("lane_id")
    index = emit("gpu.lane_id", session.type("index"), ())
    return Int32.wrap(emit("arith.index_cast", session.type("i32"), (index,)))


def num_warp_threads() -> int:
    """Return the threads per warp of the target compiled for.

    Raises:
        UserRuntimeError: The trace has no target.
    """
    session = require("num_warp_threads")
    if session.target is None:
        raise UserRuntimeError("the warp size depends on the target", code="FLY-U254")
    return session.target.warp_size


def known_block_size() -> tuple[int, int, int]:
    """Return the threads per block along x, y, z.

    Raises:
        UserRuntimeError: The launch computes the block size at run time.
    """
    session = _kernel("known_block_size")
    assert session.kernel is not None
    if session.kernel.block is None:
        raise UserRuntimeError(
            "the block size is not known while tracing",
            code="FLY-U254",
            hint="launch with constants or declare known_block_size",
        )
    return session.kernel.block


def barrier() -> None:
    """Wait until all threads of the block are here; shared memory written before is visible."""
    _kernel("barrier")
    emit_op("gpu.barrier", (), ())


_MODES = ("xor", "up", "down", "idx")


def shuffle(value: Any, offset: Any, width: Any = None, mode: str = "xor") -> Any:
    """Return `value` of another lane of the warp.

    Args:
        value: Number or vector; moved as 32-bit words.
        offset: Lane mask (``"xor"``), distance (``"up"``, ``"down"``) or lane (``"idx"``).
        width: Lanes per group, a power of two; default: the warp.
        mode: How the source lane is found. A lane whose source is outside its group keeps its own
            value.

    Raises:
        UserValueError: An unknown mode, or a width that is no power of two within the warp.
    """
    session = _kernel("shuffle")
    if mode not in _MODES:
        raise UserValueError(
            "no such shuffle", code="FLY-U255", value=mode, allowed=", ".join(_MODES)
        )
    lanes = session.target.warp_size if session.target is not None else 0
    width = _lane_count(width, lanes)
    distance = as_numeric(offset)
    if distance is None or not distance.is_integer:
        raise UserTypeError("a shuffle offset is an integer", code="FLY-U255", value=offset)
    operands = (distance.to(Int32).ir_value(), width.ir_value())
    attribute = session.ir.Attribute.parse(f"#gpu<shuffle_mode {mode}>")
    if isinstance(value, Vector):
        return _shuffle_vector(session, value, operands, attribute)
    number = as_numeric(value)
    if number is None:
        raise UserTypeError("a shuffle moves numbers or vectors", code="FLY-U255", value=value)
    return _shuffle_number(session, number, operands, attribute)


def _lane_count(width: Any, lanes: int) -> Numeric:
    number = as_numeric(lanes if width is None else width)
    if number is None or not number.is_integer:
        raise UserTypeError("a shuffle width is an integer", code="FLY-U255", value=width)
    if number.is_static():
        count = int(number.value)
        if count <= 0 or count & (count - 1) or (lanes and count > lanes):
            raise UserValueError(
                "a shuffle width is a power of two of at most the warp size",
                code="FLY-U255",
                value=count,
                allowed=f"1 to {lanes}" if lanes else "a power of two",
                hint="" if width is not None else "pass width= when tracing without a target",
            )
    return number.to(Int32)


def _shuffle_word(session: Session, word: Any, operands: Any, mode: Any) -> Any:
    kinds = (session.type("i32"), session.type("i1"))
    return emit_op("gpu.shuffle", kinds, (word, *operands), {"mode": mode}).results[0]


def _shuffle_number(session: Session, number: Numeric, operands: Any, mode: Any) -> Any:
    kind = type(number)
    if kind.is_index or kind.width > 64:
        raise UserTypeError(f"{kind!r} cannot be shuffled", code="FLY-U255")
    if kind.width == 64:
        pair = Vector([number]).bitcast(Int32)
        return _shuffle_vector(session, pair, operands, mode).bitcast(kind)[0]
    if kind.is_float:
        bits = number.bitcast(_UNSIGNED[kind.width])
    else:
        bits = number
    word = bits.to(Int32).ir_value()
    moved = Int32.wrap(_shuffle_word(session, word, operands, mode))
    if kind is Boolean:
        return moved.to(Boolean)
    return moved.to(type(bits)).bitcast(kind) if kind.is_float else moved.to(kind)


def _unsigned_classes() -> dict[int, Any]:
    from flydsl.expr.numeric import Uint8, Uint16, Uint32

    return {8: Uint8, 16: Uint16, 32: Uint32}


_UNSIGNED = _unsigned_classes()


def _shuffle_vector(session: Session, vector: Vector, operands: Any, mode: Any) -> Vector:
    bits = vector.numel * vector.dtype.width
    if bits % 32:
        moved = [_shuffle_number(session, item, operands, mode) for item in vector]
        return Vector(moved, vector.shape, vector.dtype)
    words = vector.bitcast(Int32)
    out = [
        Int32.wrap(_shuffle_word(session, words[index].ir_value(), operands, mode))
        for index in range(bits // 32)
    ]
    return Vector(out).bitcast(vector.dtype).reshape(vector.shape)


def shuffle_xor(value: Any, offset: Any, width: Any = None) -> Any:
    """Return `value` of lane ``own ^ offset``."""
    return shuffle(value, offset, width, "xor")


def shuffle_up(value: Any, offset: Any, width: Any = None) -> Any:
    """Return `value` of lane ``own - offset``."""
    return shuffle(value, offset, width, "up")


def shuffle_down(value: Any, offset: Any, width: Any = None) -> Any:
    """Return `value` of lane ``own + offset``."""
    return shuffle(value, offset, width, "down")


def shuffle_idx(value: Any, offset: Any, width: Any = None) -> Any:
    """Return `value` of lane `offset` of the group."""
    return shuffle(value, offset, width, "idx")


def __getattr__(name: str) -> Any:
    """Return a name that only existing kernels use, with a warning (`flydsl.compat`)."""
    from flydsl.plugins.namespaces import legacy_attribute

    return legacy_attribute(__name__, name)
