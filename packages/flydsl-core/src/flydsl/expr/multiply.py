"""Matrix multiply-add: MMA atoms, tiled MMAs and fragments. What runs them is in `gemms`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.copying import atom_set_value
from flydsl.expr.emit import located
from flydsl.expr.layouts import apply, tuple_value
from flydsl.expr.pointers import element_class
from flydsl.expr.tensors import Tensor
from flydsl.expr.tiling import ThreadSlice, checked_thread
from flydsl.expr.wrapping import FlyValue, as_operand, is_plain, plain, register_wrapper, wrap

__all__ = [
    "MmaAtom",
    "ThrMma",
    "TiledMma",
    "UniversalFMA",
    "make_mma_atom",
    "make_tiled_mma",
]


def UniversalFMA(dtype: Any) -> Any:  # noqa: N802  (the name of the public API)
    """Return the 1 x 1 x 1 operation of one thread: a product, rounded, then a sum, rounded.

    Args:
        dtype: Numeric class of all four operands.

    Raises:
        UserTypeError: It is no numeric class.
    """
    from flydsl.dialects import atoms

    return atoms.UniversalFMA(element_class(dtype).ir_text)


class MmaAtom(FlyValue):
    """One matrix multiply-add instruction."""

    __slots__ = ()

    @property
    def operation(self) -> Any:
        """The MMA operation."""
        return self.kind.operation

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extents M, N, K of one instruction."""
        extents: tuple[int, int, int] = self.operation.shape_mnk
        return extents

    @property
    def thr_layout(self) -> Any:
        """Layout of the threads that take part."""
        return self.operation.thr_layout()

    thr_id = thr_layout

    @property
    def layout_A_tv(self) -> Any:  # noqa: N802  (the name of the public API)
        """(thread, value) to linear coordinate in the (M, K) tile of A."""
        return self.operation.layout_tv("A")

    @property
    def layout_B_tv(self) -> Any:  # noqa: N802
        """(thread, value) to linear coordinate in the (N, K) tile of B."""
        return self.operation.layout_tv("B")

    @property
    def layout_C_tv(self) -> Any:  # noqa: N802
        """(thread, value) to linear coordinate in the (M, N) tile of C and D."""
        return self.operation.layout_tv("C")

    def set_value(self, field: str | Mapping[str, Any], value: Any = None) -> Any:
        """Return the atom with a state field set, or with all fields of a mapping set.

        Raises:
            UserError: The operation has no such state.
        """
        atom = self
        fields = field if isinstance(field, Mapping) else {field: value}
        for name, item in fields.items():
            atom = atom_set_value(atom, name, item)
        return atom


class TiledMma(MmaAtom):
    """An MMA atom repeated over an arrangement of atoms and the values of each thread."""

    __slots__ = ()

    @property
    def operation(self) -> Any:
        """The MMA operation."""
        return self.kind.atom.operation

    @property
    def mma_atom(self) -> MmaAtom:
        """The atom, with its state."""
        atom: MmaAtom = apply("get_mma_atom", self)
        return atom

    @property
    def atom_layout(self) -> Any:
        """Arrangement of atoms over M, N, K."""
        return self.kind.atom_layout

    @property
    def permutation_mnk(self) -> Any:
        """Tiler per M, N, K; None leaves a mode alone."""
        return self.kind.permutation

    @property
    def tile_size_mnk(self) -> tuple[int, int, int]:
        """Extents M, N, K that one step of all threads covers."""
        from flydsl.dialects import tiled

        return tiled.tile_size_mnk(self.kind)

    @property
    def thr_layout_vmnk(self) -> Any:
        """(thread in the atom, atom along M, N, K) to thread number."""
        from flydsl.dialects import tiled

        return tiled.thr_layout_vmnk(self.kind)

    @property
    def size(self) -> int:
        """Number of threads."""
        from flydsl.dialects.checks import static_size

        return static_size(self.thr_layout_vmnk)

    def _layout_tv(self, operand: str) -> Any:
        from flydsl.dialects import tiled

        return tiled.mma_layout_tv(self.kind, operand)

    @property
    def tv_layout_A_tiled(self) -> Any:  # noqa: N802
        """(thread, value) to linear coordinate in the tile of A."""
        return self._layout_tv("A")

    @property
    def tv_layout_B_tiled(self) -> Any:  # noqa: N802
        """(thread, value) to linear coordinate in the tile of B."""
        return self._layout_tv("B")

    @property
    def tv_layout_C_tiled(self) -> Any:  # noqa: N802
        """(thread, value) to linear coordinate in the tile of C."""
        return self._layout_tv("C")

    def draw(self, operand: str = "C", **files: Any) -> str:
        """Return which thread holds which element of an operand's tile, as text.

        Args:
            operand: ``"A"``, ``"B"``, ``"C"`` or ``"D"``.
            **files: ``svg`` and ``html``: files to write.
        """
        from flydsl.dialects.pictures import draw_tiled

        return draw_tiled(self.kind, operand, **files)

    def thr_slice(self, thread: Any) -> ThrMma:
        """Return one thread's share.

        Args:
            thread: Number of the thread among those of the tiled MMA.

        Raises:
            UserError: It is no integer, or a constant beyond the last thread.
        """
        return ThrMma(self, checked_thread(thread, self.size, "a tiled MMA"))

    get_slice = thr_slice

    def make_fragment_A(self, tile: Any, *, stages: int | None = None) -> Tensor:  # noqa: N802
        """Allocate the registers for a thread's part of a tile of A.

        Args:
            tile: The whole tile (M, K): a tensor, coordinate tensor or layout, not partitioned.
            stages: Adds a trailing mode of this extent.

        Returns:
            Register tensor (values, rest of M, rest of K[, stages]) of the atom's element type.

        Raises:
            UserError: The tile does not fit the tiled MMA or is not static.
        """
        return _fragment(self, "A", tile, stages)

    def make_fragment_B(self, tile: Any, *, stages: int | None = None) -> Tensor:  # noqa: N802
        """Allocate the registers for a thread's part of a tile (N, K); see `make_fragment_A`."""
        return _fragment(self, "B", tile, stages)

    def make_fragment_C(self, tile: Any, *, stages: int | None = None) -> Tensor:  # noqa: N802
        """Allocate the registers for a thread's part of a tile (M, N); see `make_fragment_A`."""
        return _fragment(self, "C", tile, stages)

    def _partition_shape(self, operand: str, shape: Any) -> Any:
        from flydsl.dialects import fly, tiled

        if is_plain(shape):
            return tiled.mma_partition_shape(
                self.kind, tuple_value(plain(shape)), operand_id=operand
            )
        with located():
            return wrap(fly.tiled_mma_partition_shape(operand, self.value, as_operand(shape)))

    def partition_shape_A(self, shape: Any) -> Any:  # noqa: N802
        """Return the shape of a thread's part of a tile of A of shape (M, K)."""
        return self._partition_shape("A", shape)

    def partition_shape_B(self, shape: Any) -> Any:  # noqa: N802
        """Return the shape of a thread's part of a tile of B of shape (N, K)."""
        return self._partition_shape("B", shape)

    def partition_shape_C(self, shape: Any) -> Any:  # noqa: N802
        """Return the shape of a thread's part of a tile of C of shape (M, N)."""
        return self._partition_shape("C", shape)


class ThrMma(ThreadSlice):
    """One thread's share of a `TiledMma`."""

    __slots__ = ()

    def _partition(self, operand: str, tile: Any) -> Any:
        from flydsl.dialects import fly

        element = getattr(tile, "element", None)
        with located():
            made = fly.tiled_mma_partition(
                operand, self.tiled.value, as_operand(tile), as_operand(self.thread)
            )
        return wrap(made, element)

    def partition_A(self, tile: Any) -> Any:  # noqa: N802
        """Return the thread's part of a tile (M, K, …): (values, rest of each mode…).

        Raises:
            UserError: The tiled MMA does not divide it.
        """
        return self._partition("A", tile)

    def partition_B(self, tile: Any) -> Any:  # noqa: N802
        """Return the thread's part of a tile (N, K, …): (values, rest of each mode…)."""
        return self._partition("B", tile)

    def partition_C(self, tile: Any) -> Any:  # noqa: N802
        """Return the thread's part of a tile (M, N, …): (values, rest of each mode…)."""
        return self._partition("C", tile)

    def make_fragment_A(self, tile: Any, *, stages: int | None = None) -> Tensor:  # noqa: N802
        """See `TiledMma.make_fragment_A`."""
        return _fragment(self.tiled, "A", tile, stages)

    def make_fragment_B(self, tile: Any, *, stages: int | None = None) -> Tensor:  # noqa: N802
        """See `TiledMma.make_fragment_B`."""
        return _fragment(self.tiled, "B", tile, stages)

    def make_fragment_C(self, tile: Any, *, stages: int | None = None) -> Tensor:  # noqa: N802
        """See `TiledMma.make_fragment_C`."""
        return _fragment(self.tiled, "C", tile, stages)


def _fragment(tiled: TiledMma, operand: str, tile: Any, stages: Any) -> Tensor:
    from flydsl.dialects import fly

    count = plain(stages)
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise UserValueError(
            "the stages of a fragment are a positive int", code="FLY-U270", value=stages
        )
    with located():
        return Tensor(fly.mma_make_fragment(operand, tiled.value, as_operand(tile), count))


register_wrapper("mma_atom", lambda value, kind, _: MmaAtom(value, kind))
register_wrapper("tiled_mma", lambda value, kind, _: TiledMma(value, kind))


def make_mma_atom(operation: Any) -> MmaAtom:
    """Return the MMA atom of an operation such as ``fx.rocdl.MFMA(…)`` or `UniversalFMA`.

    Raises:
        UserTypeError: It is no MMA operation.
    """
    from flydsl.dialects import atoms, fly

    if not isinstance(operation, atoms.MmaOp):
        raise UserTypeError("this is not an MMA operation", code="FLY-U270", value=operation)
    with located():
        return MmaAtom(fly.make_mma_atom(operation))


def make_tiled_mma(atom: Any, atom_layout: Any, permutation: Any = None) -> TiledMma:
    """Return the tiled MMA of an atom.

    Args:
        atom: An MMA atom, or an MMA operation.
        atom_layout: Static arrangement of atoms over (M, N, K): a layout, or a shape, whose atoms
            are then numbered along M first.
        permutation: Tiler per M, N, K: None, an extent or a layout. An extent larger than the
            atoms cover gives each thread values of several atoms next to each other.

    Raises:
        UserError: A part is of another kind, or not static.
    """
    from flydsl import layout as algebra

    if not isinstance(atom, MmaAtom):
        atom = make_mma_atom(atom)
    if isinstance(atom, TiledMma):
        raise UserTypeError("a tiled MMA needs an MMA atom", code="FLY-U270", value=atom)
    arrangement = tuple_value(plain(atom_layout)) if is_plain(atom_layout) else atom_layout
    if isinstance(arrangement, (int, tuple)):
        arrangement = algebra.make_ordered_layout(arrangement, 0)
    operands = [atom, arrangement]
    if permutation is not None:
        modes = permutation if isinstance(permutation, (tuple, list)) else None
        operands.append(permutation if modes is None else algebra.make_tile(*modes))
    made: TiledMma = apply("make_tiled_mma", *operands)
    return made
