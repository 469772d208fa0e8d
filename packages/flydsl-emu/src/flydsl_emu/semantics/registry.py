"""The table of opcode meanings.

An entry is a mnemonic, a signature and a function over the vector API::

    @opcode("v_addc_co_u32", "u32 mask = u32 u32 mask")
    def add_with_carry(v, a, b, carry): ...

The signature lists results, ``=``, sources. Explicit tokens take the instruction's operands in
assembler order:

- ``u32`` …: a value of that type; the tier applies input modifiers, op_sel, DPP, SDWA, clamp and
  omod (through `flydsl_emu.semantics.modifiers`);
- ``mask``: a lane mask in an SGPR pair; as a result, lanes that do not execute give 0;
- ``regs``: the list of ``U32`` registers of the operand;
- ``window``: the list of ``U32`` registers from the operand's to the kernel's last vector register;
- ``auto``: ``U32`` or ``U64`` by the operand's width, None for ``off``;
- ``imm``: an immediate field, as a Python int;
- ``both.`` before a result type: that operand is a source as well;
- ``always.`` or ``unmasked.`` before a result type: written whatever EXEC says;
- ``optional.`` before a result type: encodings without a destination operand leave it out;
- ``branch`` as a result: a uniform condition under which the wave goes to the branch target;
- ``barrier`` as a result: the operand of a split-barrier instruction, which the scheduler executes;
- ``jump`` as a result: a uniform ``U64`` address at which the wave goes on.

Implicit tokens: ``scc`` (uniform ``B1``), ``vcc`` and ``exec`` (lane masks), ``m0``, ``pc``
(address of the next instruction, uniform ``U64``), ``inst`` (the instruction), ``arch`` (the
architecture's name), ``mode`` (the MODE register at the instruction, a Python int: tiers bind code
per value), ``hwmode`` (the same as a uniform ``U32``; as a result it writes MODE, and ``m0`` writes
M0), ``place`` (the wave's IB_STS2 register, which tells its place in a cluster; compiled code has
neither this nor ``hwmode``), ``old`` (previous value of the first result), ``oldregs`` and
``oldwindow`` (the same for ``regs`` and ``window``). A token with ``pk.`` in front is evaluated for
the low and the high half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["IMPLICIT", "REGISTRY", "Semantics", "alias", "define", "opcode"]

IMPLICIT = frozenset("scc vcc exec m0 pc inst arch mode hwmode place old oldregs oldwindow".split())

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Semantics:
    """The meaning of one mnemonic.

    Attributes:
        name: Mnemonic without encoding suffix.
        results, sources: Signature tokens.
        function: ``function(api, *sources)`` returning one value, or a tuple for several results.
        primitive: Name of the vector-API method that `function` is, or empty: a tier may then call
            its own form of that method directly.
        saturating: Used instead of `function` when an integer instruction has the clamp bit.
        keeps_high: A 16-bit result leaves the other half of its register alone.
        packed: Evaluated per half.
    """

    name: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: Function
    primitive: str = ""
    saturating: Function | None = None
    keeps_high: bool = False
    packed: bool = False


REGISTRY: dict[str, Semantics] = {}


def _parse(signature: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    left, _, right = signature.partition("=")
    packed = "pk." in signature
    return (
        tuple(left.replace("pk.", "").split()),
        tuple(right.replace("pk.", "").split()),
        packed,
    )


def define(
    names: str | Iterable[str],
    signature: str,
    function: Function | str,
    *,
    saturating: Function | None = None,
    keeps_high: bool = False,
) -> None:
    """Enter `function`, or the vector-API method of that name, for mnemonics.

    Raises:
        ValueError: A mnemonic is defined already.
    """
    results, sources, packed = _parse(signature)
    primitive = function if isinstance(function, str) else ""
    body: Function = _method(function) if isinstance(function, str) else function
    for name in names.split() if isinstance(names, str) else names:
        if name in REGISTRY:
            raise ValueError(f"{name} is defined twice")
        REGISTRY[name] = Semantics(
            name, results, sources, body, primitive, saturating, keeps_high, packed
        )


def alias(name: str, existing: str) -> None:
    """Enter another mnemonic of an opcode that is defined already.

    Raises:
        ValueError: `name` is defined already.
        KeyError: `existing` is not.
    """
    if name in REGISTRY:
        raise ValueError(f"{name} is defined twice")
    REGISTRY[name] = replace(REGISTRY[existing], name=name)


def _method(name: str) -> Function:
    def call(v: Any, *args: Any) -> Any:
        return getattr(v, name)(*args)

    return call


def opcode(
    names: str,
    signature: str,
    *,
    saturating: Function | None = None,
    keeps_high: bool = False,
) -> Callable[[Function], Function]:
    """Decorate the function that gives the mnemonics in `names` their meaning."""

    def enter(function: Function) -> Function:
        define(names, signature, function, saturating=saturating, keeps_high=keeps_high)
        return function

    return enter
