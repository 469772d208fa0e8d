"""Functions that are written elsewhere: LLVM IR, bitcode, or an intrinsic of LLVM (`ffi`)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flydsl.errors import UserOSError, UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import Session, require
from flydsl.expr.emit import emit_op
from flydsl.expr.numeric import (
    BFloat16,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Numeric,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    as_numeric,
)

__all__ = ["EXTERNS", "TYPE_NAMES", "ExternFunction", "ffi"]

EXTERNS = "fly.externs"
"""Attribute of the device module: a list of what its external functions are and come from.

Each entry is a dictionary: ``symbol``; ``signature``, its LLVM type; ``library``, LLVM IR or
bitcode in base64, empty for an intrinsic.
"""

TYPE_NAMES: dict[str, type[Numeric] | None] = {
    "void": None,
    "int8": Int8,
    "uint8": Uint8,
    "int16": Int16,
    "uint16": Uint16,
    "int32": Int32,
    "uint32": Uint32,
    "int64": Int64,
    "uint64": Uint64,
    "float16": Float16,
    "bfloat16": BFloat16,
    "float32": Float32,
    "float64": Float64,
}
"""Type names of `ffi`; ``"void"`` for no result."""

_LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*")


def _type(name: Any, void: bool) -> type[Numeric] | None:
    found = name if isinstance(name, type) and name in TYPE_NAMES.values() else None
    if found is None and not (isinstance(name, str) and name in TYPE_NAMES):
        raise UserValueError(
            "an external function has no such type",
            code="FLY-U276",
            value=name,
            allowed=", ".join(TYPE_NAMES),
        )
    found = TYPE_NAMES[name] if found is None else found
    if found is None and not void:
        raise UserValueError("a parameter cannot be void", code="FLY-U276", value=name)
    return found


class ExternFunction:
    """An external function; call it in a kernel or a helper of one.

    Attributes:
        symbol: Its name.
        parameters: Numeric classes of the parameters.
        result: Numeric class of the result, or None.
        library: LLVM IR text or bitcode that defines it; empty for an intrinsic or while unknown.
        source: Where the library comes from, for messages.
    """

    __slots__ = ("library", "parameters", "result", "source", "symbol")

    def __init__(
        self,
        symbol: str,
        parameters: tuple[type[Numeric], ...],
        result: type[Numeric] | None,
        library: bytes = b"",
        source: str = "",
    ) -> None:
        self.symbol = symbol
        self.parameters = parameters
        self.result = result
        self.library = library
        self.source = source

    def linked(self, library: bytes, source: str) -> ExternFunction:
        """Return the function with the library that defines it.

        Args:
            library: LLVM IR text or bitcode.
            source: Where it comes from, for messages.
        """
        return ExternFunction(self.symbol, self.parameters, self.result, library, source)

    @property
    def signature(self) -> str:
        """The function's LLVM type."""
        result = "void" if self.result is None else _llvm_type(self.result)
        return f"{result} ({', '.join(map(_llvm_type, self.parameters))})"

    def __repr__(self) -> str:
        # Part of cache keys, so it must tell apart what compiles differently.
        digest = hashlib.sha256(self.library).hexdigest()[:32] if self.library else "no library"
        kinds = [kind.__name__ for kind in self.parameters]
        result = self.result.__name__ if self.result else None
        return f"ExternFunction({self.symbol!r}, {kinds}, {result}, {digest})"

    def __call__(self, *arguments: Any) -> Any:
        """Call the function.

        Args:
            *arguments: Numbers; each is converted to its parameter's class.

        Returns:
            A number of the result's class, or None.

        Raises:
            UserRuntimeError: Outside a kernel, or no library defines the function.
            UserTypeError: A wrong number of arguments, or one that is no number.
        """
        session = require(f"the external function {self.symbol!r}")
        if session.kernel is None:
            raise UserRuntimeError(
                f"the external function {self.symbol!r} is called outside a kernel",
                code="FLY-U276",
            )
        if not self.library and not self.symbol.startswith("llvm."):
            raise UserRuntimeError(
                f"nothing defines the external function {self.symbol!r}",
                code="FLY-U276",
                hint="bind it to LLVM IR or bitcode with flydsl.compiler.extern_link.link_extern",
            )
        if len(arguments) != len(self.parameters):
            raise UserTypeError(
                f"{self.symbol!r} takes {len(self.parameters)} arguments",
                code="FLY-U276",
                value=len(arguments),
            )
        operands = []
        for kind, argument in zip(self.parameters, arguments, strict=True):
            number = as_numeric(argument)
            if number is None:
                raise UserTypeError(
                    f"{self.symbol!r} takes numbers", code="FLY-U276", value=argument
                )
            operands.append(number.to(kind).ir_value())
        _declare(session, self)
        ir = session.ir
        results = () if self.result is None else (session.type(self.result.ir_text),)
        attributes = {
            "callee": ir.FlatSymbolRefAttr.get(self.symbol),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        }
        operation = emit_op("llvm.call", results, operands, attributes)
        return None if self.result is None else self.result.wrap(operation.results[0])


def _llvm_type(kind: type[Numeric]) -> str:
    return _LLVM.get(kind.ir_text, kind.ir_text)


def _declare(session: Session, function: ExternFunction) -> None:
    """Declare the function in the device module and note its library there, once.

    Raises:
        UserValueError: Another function of that name is declared already.
    """
    ir = session.ir
    assert session.kernel is not None
    module = session.kernel.entry.owner.operation.parent
    known = module.attributes[EXTERNS] if EXTERNS in module.attributes else ()  # noqa: SIM401
    library = base64.b64encode(function.library).decode()
    entry = {"symbol": function.symbol, "signature": function.signature, "library": library}
    for item in known:
        if item["symbol"].value == function.symbol:
            if any(item[key].value != text for key, text in entry.items()):
                raise UserValueError(
                    "two different external functions have one name",
                    code="FLY-U276",
                    value=function.symbol,
                )
            return
    made = ir.DictAttr.get({key: ir.StringAttr.get(text) for key, text in entry.items()})
    module.attributes[EXTERNS] = ir.ArrayAttr.get([*known, made])
    parameters = ", ".join(kind.ir_text for kind in function.parameters)
    result = "void" if function.result is None else function.result.ir_text
    kind = ir.TypeAttr.get(session.type(f"!llvm.func<{result} ({parameters})>"))
    attributes = {
        "sym_name": ir.StringAttr.get(function.symbol),
        "function_type": kind,
        "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
    }
    place = ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0])
    session.create("llvm.func", (), (), attributes, None, 1, session.locations.here(), place)


def ffi(
    symbol: Any, arg_types: Sequence[Any], ret_type: Any = "void", is_pure: bool = False
) -> ExternFunction:
    """Declare an external function.

    An intrinsic of LLVM (``"llvm.amdgcn.…"``) can be called as it is; for other functions say with
    `flydsl.compiler.extern_link.link_extern` what defines them.

    Args:
        symbol: Its name.
        arg_types: Type names (``"int32"``, ``"float32"``, …) or numeric classes of the parameters.
            Arguments are converted, so narrow integers arrive extended by their own sign.
        ret_type: The same for the result; ``"void"`` for none.
        is_pure: Has no effect: LLVM finds out from the definition.

    Raises:
        UserValueError: An unknown type, or no name of a function.
    """
    del is_pure
    if not isinstance(symbol, str) or not _SYMBOL.fullmatch(symbol):
        raise UserValueError("this names no function", code="FLY-U276", value=symbol)
    kinds = tuple(_type(name, False) for name in arg_types)
    found = ExternFunction(symbol, tuple(k for k in kinds if k), _type(ret_type, True))
    from flydsl.plugins.manager import plugin_manager

    for resolver in plugin_manager().cache("extern-resolvers").values():
        path = resolver(symbol)
        if path is not None:
            try:
                return found.linked(Path(path).read_bytes(), str(path))
            except OSError as error:
                raise UserOSError.of(
                    error, "the library cannot be read", path, code="FLY-U276"
                ) from error
    return found
