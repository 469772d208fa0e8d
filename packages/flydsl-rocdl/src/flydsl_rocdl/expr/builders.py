"""Raw builders: every AMDGPU intrinsic of LLVM under its ROCDL name.

``fx.rocdl.a_b_c(result, operands…)`` calls ``llvm.amdgcn.a.b.c``; the result type comes first where
there is a result, and operands may be in lists, as the ROCDL dialect's builders of matrix
operations have them. LLVM checks the call (`flydsl.expr.llvm`).
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from flydsl import mlir
from flydsl.errors import TargetError, UserAttributeError
from flydsl.expr import llvm
from flydsl.expr.numeric import Boolean, Int16, Int32
from flydsl_rocdl.expr.access import amd_facts
from flydsl_rocdl.expr.intrinsic_names import NAMES

__all__ = ["builder"]

_ABSENT = frozenset(
    {
        "raw_ptr_buffer_load_async_lds",
        "global_load_async_lds",
        "load_async_to_lds",
        "cluster_load_async_lds",
        "sched_bank",
        "sched_vgpr",
        "sched_sgpr",
        "sched_agpr",
        "ptr_s_buffer_load",
    }
)
"""Builders of other builds of ROCDL whose intrinsics LLVM 22.1 lacks."""
_WIDTHS = {"I1Attr": Boolean, "I16Attr": Int16, "I32Attr": Int32}
_ATTRIBUTE = re.compile(
    r'attributes\["(\w+)"\] = \(.*?AttrBuilder\.contains\(\'(\w+)\'\)', re.DOTALL
)
_NO_RESULT = frozenset(
    {"s.barrier.init", "s.barrier.join", "s.barrier.leave", "s.barrier.signal.var", "s.setreg",
     "s.wakeup.barrier", "s.sethalt", "s.ttracedata", "s.ttracedata.imm", "s.decperflevel",
     "s.incperflevel", "s.monitor.sleep", "s.prefetch.data", "s.prefetch.inst", "endpgm", "exp",
     "wave.barrier", "sched.barrier", "s.sleep.var"}
)  # fmt: skip
_STORES = re.compile(r"(\.store|\.lds(\.|$)|prefetch|wbl2|buffer\.(wb|inv)|dcache)")


@functools.cache
def _names() -> dict[str, str]:
    """Return the intrinsics' names by builder name."""
    found = {name.replace(".", "_"): name for name in sorted(NAMES)}
    for prefix in ("", "s_"):
        found.pop(f"{prefix}asyncmark", None)
    return found


@functools.cache
def _upstream(name: str) -> Any:
    """Return the ROCDL dialect's class of the operation called as the intrinsic, or None."""
    for item in vars(mlir.rocdl).values():
        if getattr(item, "OPERATION_NAME", "").removeprefix("rocdl.").replace("_", ".") == (
            name.replace("_", ".")
        ):
            return item
    return None


def _has_result(name: str) -> bool:
    upstream = _upstream(name)
    if upstream is not None:
        return "results.append(" in inspect.getsource(upstream.__init__)
    return name not in _NO_RESULT and _STORES.search(name) is None


def _classes(name: str) -> dict[int, Any]:
    """Return the numeric class of each immediate, by position among the operands."""
    upstream = _upstream(name)
    if upstream is None:
        return {}
    source = inspect.getsource(upstream.__init__)
    kinds = dict(_ATTRIBUTE.findall(source))
    order = [p for p in inspect.signature(upstream.__init__).parameters if p not in ("self", "res")]
    return {
        at: _WIDTHS[kinds[parameter]]
        for at, parameter in enumerate(order)
        if kinds.get(parameter) in _WIDTHS
    }


def builder(name: str) -> Callable[..., Any]:
    """Return the raw builder of that name.

    Raises:
        UserAttributeError: LLVM has no such intrinsic; says what is close.
    """
    if name in _ABSENT:
        return functools.partial(_absent, name)
    intrinsic = _names().get(name)
    if intrinsic is None:
        close = difflib.get_close_matches(name, _names(), 3)
        raise UserAttributeError(
            f"fx.rocdl has no {name!r}, and LLVM 22.1 no intrinsic of that name",
            code="FLY-U639",
            value=name,
            hint=f"close: {', '.join(close)}" if close else "",
        )

    def build(*arguments: Any) -> Any:
        amd_facts(name)
        given = list(arguments)
        result = given.pop(0) if _has_result(intrinsic) and given else None
        operands: list[Any] = []
        for item in given:
            operands += item if isinstance(item, (list, tuple)) else [item]
        classes = _classes(intrinsic)
        for at, kind in classes.items():
            if at < len(operands) and isinstance(operands[at], (bool, int)):
                operands[at] = kind(operands[at])
        return llvm.call_intrinsic(f"llvm.amdgcn.{intrinsic}", result, *operands)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Call ``llvm.amdgcn.{intrinsic}``."
    return build


def _absent(name: str, *_: Any, **__: Any) -> Any:
    raise TargetError(
        f"LLVM 22.1 has no intrinsic for fx.rocdl.{name}",
        code="FLY-T644",
        hint="fx.rocdl.BufferCopyLDS and cdna4.GlobalLoadAsyncLDS load into LDS",
    )
