"""Tiled copies: a copy atom repeated over the threads and values of a tile."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.copying import CopyAtom
from flydsl.expr.layouts import apply, tuple_value
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.wrapping import is_plain, plain, register_wrapper

__all__ = [
    "ThrCopy",
    "ThreadSlice",
    "TiledCopy",
    "checked_thread",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_tv",
]


def checked_thread(thread: Any, threads: int, what: str) -> int | Numeric:
    """Return the thread number that a tiled operation is sliced by.

    Raises:
        UserError: It is no single integer, or a constant that no thread of the operation has.
    """
    number = as_numeric(thread)
    if number is None or not number.is_integer or number.width == 1:
        raise UserTypeError(
            f"the slice of {what} needs a thread number", code="FLY-U270", value=thread
        )
    if not number.is_static():
        return number
    if not 0 <= int(number) < threads:
        raise UserValueError(
            f"{what} has no such thread",
            code="FLY-U270",
            value=int(number),
            allowed=f"0 to {threads - 1}",
        )
    return int(number)


class ThreadSlice:
    """One thread's share of a tiled operation.

    Attributes:
        tiled: The tiled operation.
        thread: The thread's number: an int, or a run-time integer.
    """

    __slots__ = ("thread", "tiled")

    def __init__(self, tiled: Any, thread: int | Numeric) -> None:
        self.tiled = tiled
        self.thread = thread

    def __fly_values__(self) -> list[Any]:
        values: list[Any] = self.tiled.__fly_values__()
        return values if isinstance(self.thread, int) else [*values, self.thread.ir_value()]

    def __fly_rebuild__(self, values: list[Any]) -> Any:
        thread = self.thread
        if not isinstance(thread, int):
            thread = type(thread).wrap(values[-1])
            values = values[:-1]
        return type(self)(self.tiled.__fly_rebuild__(values), thread)

    def __fly_key__(self) -> object:
        thread = self.thread if isinstance(self.thread, int) else type(self.thread).__name__
        return (type(self).__name__, self.tiled.__fly_key__(), thread)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tiled!r}, {self.thread!r})"


class TiledCopy(CopyAtom):
    """A copy atom repeated over threads and values of a tile."""

    __slots__ = ()

    @property
    def operation(self) -> Any:
        """The copy operation."""
        return self.kind.atom.operation

    @property
    def val_bits(self) -> int:
        """Bits of one value."""
        return int(self.kind.atom.bits)

    @property
    def copy_atom(self) -> CopyAtom:
        """The atom, with its state."""
        atom: CopyAtom = apply("get_copy_atom", self)
        return atom

    @property
    def tile_mn(self) -> Any:
        """Extent of the tile per mode."""
        return self.kind.tile

    @property
    def size(self) -> int:
        """Number of threads."""
        from flydsl import layout as algebra
        from flydsl.dialects.checks import static_size

        return static_size(algebra.get(self.kind.layout_tv, 0))

    @property
    def layout_tv_tiled(self) -> Any:
        """(thread, value) to linear coordinate in the tile."""
        return self.kind.layout_tv

    @property
    def layout_src_tv_tiled(self) -> Any:
        """(thread, value of the source) to linear coordinate in the tile."""
        from flydsl.dialects import tiled

        return tiled.tiled_copy_tv(self.kind, self.operation.src_tv(self.val_bits))

    @property
    def layout_dst_tv_tiled(self) -> Any:
        """(thread, value of the destination) to linear coordinate in the tile."""
        from flydsl.dialects import tiled

        return tiled.tiled_copy_tv(self.kind, self.operation.dst_tv(self.val_bits))

    def draw(self, part: str = "", **files: Any) -> str:
        """Return which thread holds which element of the tile, as text.

        Args:
            part: ``"source"``, ``"destination"`` or ``"tile"``, the default.
            **files: ``svg`` and ``html``: files to write.
        """
        from flydsl.dialects.pictures import draw_tiled

        return draw_tiled(self.kind, part, **files)

    def thr_slice(self, thread: Any) -> ThrCopy:
        """Return one thread's share.

        Args:
            thread: Number of the thread among those of the tiled copy.

        Raises:
            UserError: It is no integer, or a constant beyond the last thread.
        """
        return ThrCopy(self, checked_thread(thread, self.size, "a tiled copy"))

    get_slice = thr_slice

    def retile(self, fragment: Any) -> Any:
        """Return a register fragment with its values grouped as this copy moves them.

        Args:
            fragment: Fragment of another tiling of the same tile, (values, rest…).

        Raises:
            UserError: The fragment does not hold one thread's values of the tile.
        """
        return apply("tiled_copy_retile", self, fragment)


class ThrCopy(ThreadSlice):
    """One thread's share of a `TiledCopy`."""

    __slots__ = ()

    def partition_S(self, source: Any) -> Any:  # noqa: N802  (the name of the public API)
        """Return the thread's part of a source: (values, rest of each mode…).

        Args:
            source: Tensor, coordinate tensor or layout whose modes the tile divides.

        Raises:
            UserError: The tile does not divide it.
        """
        return apply("tiled_copy_partition_src", self.tiled, source, self.thread)

    def partition_D(self, destination: Any) -> Any:  # noqa: N802
        """Return the thread's part of a destination: (values, rest of each mode…).

        Raises:
            UserError: The tile does not divide it.
        """
        return apply("tiled_copy_partition_dst", self.tiled, destination, self.thread)

    def retile(self, fragment: Any) -> Any:
        """See `TiledCopy.retile`."""
        return self.tiled.retile(fragment)

    retile_S = retile_D = retile  # noqa: N815


register_wrapper("tiled_copy", lambda value, kind, _: TiledCopy(value, kind))


def _copy_atom(atom: Any) -> CopyAtom:
    if not isinstance(atom, CopyAtom) or isinstance(atom, TiledCopy):
        raise UserTypeError("a tiled copy needs a copy atom", code="FLY-U252", value=atom)
    return atom


def make_tiled_copy(atom: Any, layout_tv: Any, tile_mn: Any) -> TiledCopy:
    """Return the tiled copy of an atom.

    Args:
        atom: A copy atom.
        layout_tv: Static layout (thread, value) -> linear coordinate in the tile.
        tile_mn: Extents of the tile, one per mode of the tensors to copy: a tile or a tuple.

    Raises:
        UserError: A part is of another kind, not static, or does not fit the others.
    """
    from flydsl import layout as algebra

    tile = tuple_value(plain(tile_mn)) if is_plain(tile_mn) else tile_mn
    if isinstance(tile, (int, tuple)):
        tile = algebra.make_tile(*(tile if isinstance(tile, tuple) else (tile,)))
    made: TiledCopy = apply("make_tiled_copy", _copy_atom(atom), layout_tv, tile)
    return made


def make_tiled_copy_tv(atom: Any, thr_layout: Any, val_layout: Any) -> TiledCopy:
    """Return the tiled copy of threads arranged by one layout, each with values by another.

    Args:
        atom: A copy atom.
        thr_layout: Static layout: place of a thread in the tile -> thread number.
        val_layout: Static layout: place of a value in a thread's part -> value number.

    Raises:
        UserError: A layout is not static, or the atom does not divide the values.
    """
    from flydsl import layout as algebra

    tile, layout_tv = algebra.make_layout_tv(thr_layout, val_layout)
    return make_tiled_copy(atom, layout_tv, tile)


def _for_mma(atom: Any, tiled_mma: Any, operand: str) -> TiledCopy:
    from flydsl.dialects import fly_types, tiled

    kind = getattr(tiled_mma, "kind", None)
    if not isinstance(kind, fly_types.TiledMmaType):
        raise UserTypeError("this is not a tiled MMA", code="FLY-U270", value=tiled_mma)
    copy_atom = _copy_atom(atom)
    made = tiled.tiled_copy_for_mma(copy_atom.kind, kind, operand)
    return make_tiled_copy(copy_atom, made.layout_tv, made.tile)


def make_tiled_copy_A(atom: Any, tiled_mma: Any) -> TiledCopy:  # noqa: N802
    """Return the tiled copy that gives each thread its values of operand A of a tiled MMA.

    Raises:
        UserError: The atom does not divide a thread's values.
    """
    return _for_mma(atom, tiled_mma, "A")


def make_tiled_copy_B(atom: Any, tiled_mma: Any) -> TiledCopy:  # noqa: N802
    """Return the tiled copy that gives each thread its values of operand B of a tiled MMA.

    Raises:
        UserError: The atom does not divide a thread's values.
    """
    return _for_mma(atom, tiled_mma, "B")


def make_tiled_copy_C(atom: Any, tiled_mma: Any) -> TiledCopy:  # noqa: N802
    """Return the tiled copy that gives each thread its values of operand C of a tiled MMA.

    Raises:
        UserError: The atom does not divide a thread's values.
    """
    return _for_mma(atom, tiled_mma, "C")
