"""The Fly types as Python values, and the way between them and ``ir.Type``.

A wrapper is an immutable value without MLIR inside. `FlyType.ir` gives the type in the current
context and `of` the wrapper of an ``ir.Type``; both are cached per context, because parsing a type
costs 15 µs. Add a type by a line in `definition.TYPES` and a class here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from flydsl import layout as fl
from flydsl.dialects import atoms
from flydsl.dialects.elements import (
    check_alignment,
    element_bits,
    narrowed_alignment,
    storage_bits,
)
from flydsl.errors import CompilerBug, UserTypeError, UserValueError
from flydsl.layout.leaf import Leaf, divisor_of
from flydsl.layout.tuples import format_tuple
from flydsl.mlir import context_state

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = [
    "SPACES",
    "ComposedLayoutType",
    "CoordTensorType",
    "CopyAtomType",
    "FlyType",
    "IntTupleType",
    "LayoutType",
    "MemRefType",
    "MmaAtomType",
    "PtrType",
    "SwizzleType",
    "TileType",
    "TiledCopyType",
    "TiledMmaType",
    "of",
    "quote",
]

SPACES: Final = ("generic", "global", "shared", "register")
"""Address spaces that every target has; targets add others, e.g. ``"buffer"``."""

AnyLayout: TypeAlias = "fl.Layout | fl.ComposedLayout"


def quote(text: object) -> str:
    """Return `text` as an MLIR string attribute."""
    return '"' + str(text) + '"'


class FlyType:
    """Base of the wrappers."""

    __slots__ = ()
    mnemonic: ClassVar[str] = ""
    dialect: ClassVar[str] = "fly"

    def parameters(self) -> tuple[str, ...]:
        """Return the MLIR text of each parameter."""
        raise NotImplementedError

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """Return the wrapper of the parameters' MLIR texts (strings without quotes)."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"!{self.dialect}.{self.mnemonic}<{', '.join(self.parameters())}>"

    @property
    def ir(self) -> ir.Type:
        """The type in the current context."""
        state = context_state()
        found = state.types.get(self)
        if found is None:
            from flydsl.mlir import ir

            try:
                found = ir.Type.parse(str(self))
            except ir.MLIRError as error:
                raise CompilerBug(f"cannot make the type {self}", code="FLY-B310") from error
            state.types[self] = found
            state.parsed.setdefault(found, self)
        return found


@dataclass(frozen=True, slots=True)
class IntTupleType(FlyType):
    """``!fly.int_tuple<"(4,(?,8))">``: nested integers, coordinates and strides."""

    mnemonic: ClassVar[str] = "int_tuple"
    value: Any

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(format_tuple(self.value)),)

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(fl.parse(parameters[0]))


@dataclass(frozen=True, slots=True)
class LayoutType(FlyType):
    """``!fly.layout<"(4,?):(1,4)">``."""

    mnemonic: ClassVar[str] = "layout"
    layout: fl.Layout

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(self.layout),)

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(_expect(fl.parse(parameters[0]), fl.Layout))


@dataclass(frozen=True, slots=True)
class ComposedLayoutType(FlyType):
    """``!fly.composed_layout<"S<3,0,3> o 0 o (8,8):(8,1)">``."""

    mnemonic: ClassVar[str] = "composed_layout"
    layout: fl.ComposedLayout

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(self.layout),)

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(_expect(fl.parse(parameters[0]), fl.ComposedLayout))


@dataclass(frozen=True, slots=True)
class SwizzleType(FlyType):
    """``!fly.swizzle<"S<3,4,3>">``; coordinate swizzles too."""

    mnemonic: ClassVar[str] = "swizzle"
    swizzle: fl.Swizzle | fl.CoordSwizzle

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(self.swizzle),)

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(_expect(fl.parse(parameters[0]), fl.Swizzle, fl.CoordSwizzle))


@dataclass(frozen=True, slots=True)
class TileType(FlyType):
    """``!fly.tile<"[4|8]">``: one tiler per mode."""

    mnemonic: ClassVar[str] = "tile"
    tile: fl.Tile

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(self.tile),)

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(_expect(fl.parse(parameters[0]), fl.Tile))


@dataclass(frozen=True, slots=True)
class PtrType(FlyType):
    """``!fly.ptr<f32, "global", 16 : i64, "">``.

    Attributes:
        element: MLIR text of the element type.
        space: One of `SPACES`, or a target's own space.
        alignment: Bytes, a power of two.
        swizzle: Applied to the byte address of every access, or None.
    """

    mnemonic: ClassVar[str] = "ptr"
    element: str
    space: str
    alignment: int
    swizzle: fl.Swizzle | None = None

    def __post_init__(self) -> None:
        element_bits(self.element)
        check_alignment(self.alignment)

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        swizzle = "" if self.swizzle is None else self.swizzle
        return (self.element, quote(self.space), f"{self.alignment} : i64", quote(swizzle))

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        element, space, alignment, text = parameters
        swizzle = _expect(fl.parse(text), fl.Swizzle) if text else None
        return cls(element, space, int(alignment.split()[0]), swizzle)

    def moved(self, offset: Leaf) -> PtrType:
        """Return the type after adding `offset` elements: alignment is what is still known."""
        kept = narrowed_alignment(self.alignment, self.element, divisor_of(offset))
        if kept == self.alignment:
            return self
        return PtrType(self.element, self.space, kept, self.swizzle)


@dataclass(frozen=True, slots=True)
class MemRefType(FlyType):
    """``!fly.memref<f32, "global", "(?,8):(8,1)", 16 : i64>``: a pointer with a layout.

    Attributes:
        element: MLIR text of the element type.
        space: Address space, as in `PtrType`.
        layout: Coordinates to element offsets.
        alignment: Alignment of the pointer in bytes.
    """

    mnemonic: ClassVar[str] = "memref"
    element: str
    space: str
    layout: AnyLayout
    alignment: int

    def __post_init__(self) -> None:
        element_bits(self.element)
        check_alignment(self.alignment)
        codomain = self.layout.codomain
        if isinstance(codomain, tuple):
            raise UserTypeError(
                "a tensor in memory needs a layout that maps to offsets",
                code="FLY-U312",
                value=str(self.layout),
                hint="a layout with basis strides makes a coordinate tensor",
            )

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (self.element, quote(self.space), quote(self.layout), f"{self.alignment} : i64")

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        element, space, text, alignment = parameters
        layout = _expect(fl.parse(text), fl.Layout, fl.ComposedLayout)
        return cls(element, space, layout, int(alignment.split()[0]))

    @property
    def pointer(self) -> PtrType:
        """The type of the pointer to the element at offset 0."""
        return PtrType(self.element, self.space, self.alignment)

    @property
    def bits(self) -> int:
        """Bits of one element in memory."""
        return storage_bits(self.element)


@dataclass(frozen=True, slots=True)
class CoordTensorType(FlyType):
    """``!fly.coord_tensor<"(0,0)", "(4,8):(1E0,1E1)">``: a view of coordinates, no memory."""

    mnemonic: ClassVar[str] = "coord_tensor"
    tensor: fl.CoordTensor

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(format_tuple(self.tensor.base)), quote(self.tensor.layout))

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        layout = _expect(fl.parse(parameters[1]), fl.Layout, fl.ComposedLayout)
        return cls(fl.CoordTensor(fl.parse(parameters[0]), layout))


@dataclass(frozen=True, slots=True)
class CopyAtomType(FlyType):
    """``!fly.copy_atom<"universal_copy<128>", 32 : i64>``: a copy of `bits`-bit values."""

    mnemonic: ClassVar[str] = "copy_atom"
    operation: atoms.CopyOp
    bits: int

    def __post_init__(self) -> None:
        given: object = self.bits
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise UserValueError(
                "the value width of a copy atom is not positive", code="FLY-U313", value=self.bits
            )
        self.operation.check_bits(self.bits)

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(self.operation), f"{self.bits} : i64")

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(atoms.parse_copy(parameters[0]), int(parameters[1].split()[0]))


@dataclass(frozen=True, slots=True)
class MmaAtomType(FlyType):
    """``!fly.mma_atom<"universal_fma<f32>">``."""

    mnemonic: ClassVar[str] = "mma_atom"
    operation: atoms.MmaOp

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (quote(self.operation),)

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        return cls(atoms.parse_mma(parameters[0]))


@dataclass(frozen=True, slots=True)
class TiledCopyType(FlyType):
    """``!fly.tiled_copy<"universal_copy<128>", 16 : i64, "((32,8),8):((8,1),256)", "[32|64]">``.

    Attributes:
        atom: The copy atom.
        layout_tv: (thread, value) -> linear coordinate in the tile.
        tile: Extent of the tile per mode of the tensor.
    """

    mnemonic: ClassVar[str] = "tiled_copy"
    atom: CopyAtomType
    layout_tv: fl.Layout
    tile: fl.Tile

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (*self.atom.parameters(), quote(self.layout_tv), quote(self.tile))

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        atom = CopyAtomType.parsed(parameters[:2])
        tv = _expect(fl.parse(parameters[2]), fl.Layout)
        return cls(_expect(atom, CopyAtomType), tv, _expect(fl.parse(parameters[3]), fl.Tile))


@dataclass(frozen=True, slots=True)
class TiledMmaType(FlyType):
    """``!fly.tiled_mma<"universal_fma<f32>", "(2,2,1):(1,2,0)", "[*|*|*]">``.

    Attributes:
        atom: The MMA atom.
        atom_layout: Arrangement of atoms over M, N, K.
        permutation: Tiler per M, N, K; ``*`` leaves the mode alone.
    """

    mnemonic: ClassVar[str] = "tiled_mma"
    atom: MmaAtomType
    atom_layout: fl.Layout
    permutation: fl.Tile

    def parameters(self) -> tuple[str, ...]:
        """See `FlyType.parameters`."""
        return (*self.atom.parameters(), quote(self.atom_layout), quote(self.permutation))

    @classmethod
    def parsed(cls, parameters: tuple[str, ...]) -> FlyType:
        """See `FlyType.parsed`."""
        atom = _expect(MmaAtomType.parsed(parameters[:1]), MmaAtomType)
        layout = _expect(fl.parse(parameters[1]), fl.Layout)
        return cls(atom, layout, _expect(fl.parse(parameters[2]), fl.Tile))


_CLASSES: Final[dict[str, type[FlyType]]] = {
    f"!fly.{cls.mnemonic}": cls
    for cls in (
        IntTupleType,
        LayoutType,
        ComposedLayoutType,
        SwizzleType,
        TileType,
        PtrType,
        MemRefType,
        CoordTensorType,
        CopyAtomType,
        MmaAtomType,
        TiledCopyType,
        TiledMmaType,
    )
}


def _expect(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise UserValueError(
            "a type parameter is of the wrong kind",
            code="FLY-U314",
            value=str(value),
            allowed=", ".join(kind.__name__ for kind in kinds),
        )
    return value


def _split_parameters(text: str) -> tuple[str, ...]:
    """Split ``f32, "global", "(4,8):(1,4)", 16 : i64`` at commas outside strings and brackets."""
    out: list[str] = []
    start = depth = 0
    quoted = False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted and c in "<([{":
            depth += 1
        elif not quoted and c in ">)]}":
            depth -= 1
        elif c == "," and not quoted and not depth:
            out.append(text[start:i])
            start = i + 1
    out.append(text[start:])
    return tuple(part.strip().strip('"') for part in out)


def of(type_: ir.Type) -> FlyType | None:
    """Return the wrapper of a Fly type; None for any other type.

    Raises:
        UserError: The text of the type does not parse.
    """
    state = context_state(type_.context)
    try:
        found: FlyType | None = state.parsed[type_]
    except KeyError:
        pass
    else:
        return found
    text = str(type_)
    head, _, rest = text.partition("<")
    cls = _CLASSES.get(head)
    found = None if cls is None else cls.parsed(_split_parameters(rest[:-1]))
    state.parsed[type_] = found
    if found is not None:
        state.types.setdefault(found, type_)
    return found
