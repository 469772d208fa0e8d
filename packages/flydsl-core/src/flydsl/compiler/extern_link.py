"""Saying what defines an external function (`flydsl.expr.extern.ffi`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.extern import ExternFunction
from flydsl.plugins.manager import plugin_manager

__all__ = ["BoundExternFunction", "link_extern", "register_extern_resolver"]

BoundExternFunction = ExternFunction

_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


def link_extern(
    function: ExternFunction,
    *,
    bitcode_path: str | os.PathLike[str] | None = None,
    llvm_ir: str | None = None,
    module_init_fn: Callable[[Any], object] | None = None,
) -> ExternFunction:
    """Return an external function with the library that defines it.

    The library is read now and becomes part of cache keys; it is linked into the kernels that call
    the function, for whatever target they are compiled, and its other functions stay private.

    Args:
        function: What `ffi` returned.
        bitcode_path: A file with LLVM bitcode or LLVM IR text.
        llvm_ir: LLVM IR text, instead of a file.
        module_init_fn: Not supported: modules are loaded by several runtimes.

    Raises:
        UserTypeError: `function` is none of `ffi`.
        UserValueError: There is no such file, it is neither bitcode nor text, both or neither of
            the two are given, or `module_init_fn` is.
    """
    if not isinstance(function, ExternFunction):
        raise UserTypeError(
            "link_extern needs a function of ffi()", code="FLY-U276", value=function
        )
    if module_init_fn is not None:
        raise UserValueError(
            "module_init_fn is not supported",
            code="FLY-U276",
            hint="pass what the function needs as kernel arguments",
        )
    if (bitcode_path is None) == (llvm_ir is None):
        raise UserValueError(
            "give one of bitcode_path and llvm_ir", code="FLY-U276", value=function.symbol
        )
    if llvm_ir is not None:
        return function.linked(llvm_ir.encode(), "llvm_ir")
    assert bitcode_path is not None
    path = Path(bitcode_path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserValueError(
            "the library cannot be read", code="FLY-U276", value=str(path), hint=str(error)
        ) from error
    if not content.startswith(_BITCODE):
        try:
            content.decode()
        except UnicodeDecodeError as error:
            raise UserValueError(
                "the library is neither LLVM bitcode nor LLVM IR", code="FLY-U276", value=str(path)
            ) from error
    return function.linked(content, str(path))


def register_extern_resolver(resolver: Callable[[str], str | os.PathLike[str] | None]) -> None:
    """Add a function that finds the libraries of functions declared with `ffi` from now on.

    Args:
        resolver: Gets a symbol; returns the path of its bitcode or IR, or None.
    """
    known = plugin_manager().cache("extern-resolvers")
    known[len(known)] = resolver
