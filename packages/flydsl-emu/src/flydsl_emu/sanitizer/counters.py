"""Wait counters by architecture family: what counts on which, in what order, and how waits name it.

Sources: the CDNA3, CDNA4, RDNA3 and RDNA4 ISA guides ("manually inserted wait states", "data
dependency resolution"). A further family is one more `CounterModel` in `MODELS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction

__all__ = ["MODELS", "CounterModel", "Event", "Stream", "counter_model", "writes_lds"]


@dataclass(frozen=True, slots=True)
class Stream:
    """Operations of one counter that complete in order among themselves, or in no order.

    An operation of an ordered stream is complete when the counter is at most the number of younger
    operations of the stream, whatever else counts on the counter; one of an unordered stream when
    the counter is zero.

    Attributes:
        counter: Name in the assembler: ``"vmcnt"`` …
        label: What the operations are, for messages.
        ordered: Whether they complete in the order of issue.
    """

    counter: str
    label: str
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Event:
    """What an instruction adds to the counters.

    Attributes:
        streams: Numbers of the streams it counts on; its results need all of them.
        writes_lds: It is an LDS instruction that writes LDS.
        to_lds: It loads memory straight into LDS.
    """

    streams: tuple[int, ...]
    writes_lds: bool = False
    to_lds: bool = False


@dataclass(frozen=True, slots=True)
class CounterModel:
    """Counters of one family.

    Attributes:
        streams: All streams.
        limits: Largest value that each counter holds.
        event: What an instruction counts on; None for most instructions.
        waits: The counter values that an instruction waits for; empty for most.
    """

    streams: tuple[Stream, ...]
    limits: Mapping[str, int]
    event: Callable[[Instruction], Event | None]
    waits: Callable[[Instruction], Mapping[str, int]]


_NO_EFFECT_ON_LDS = ("ds_read", "ds_load", "ds_swizzle", "ds_permute", "ds_bpermute", "ds_nop")
_VECTOR = ("buffer_", "global_", "scratch_", "tbuffer_", "image_")
_SCALAR = ("s_load", "s_buffer_load", "s_scratch_load", "s_atomic", "s_memtime", "s_memrealtime")


def writes_lds(name: str) -> bool:
    """Whether an LDS instruction changes LDS."""
    return name.startswith("ds_") and not name.startswith(_NO_EFFECT_ON_LDS)


def _loads_to_lds(i: Instruction) -> bool:
    return bool(i.mods.get("lds")) or "_load_lds_" in i.name or "_load_async_to_lds_" in i.name


def _returns(i: Instruction) -> bool:
    """Whether an atomic gives its old value back."""
    return bool(i.mods.get("sc0") or i.mods.get("glc") or i.mods.get("th", 0) & 1)


def _is_store(i: Instruction) -> bool:
    if "_atomic_" in i.name or i.name.endswith(("_atomic", "_atomic_x2")):
        return not _returns(i)
    return "_store_" in i.name


# gfx9 --------------------------------------------------------------------------------------------
_GFX9 = (
    Stream("vmcnt", "vector memory"),
    Stream("lgkmcnt", "LDS"),
    Stream("lgkmcnt", "scalar memory", ordered=False),
    Stream("vmcnt", "flat memory", ordered=False),
    Stream("lgkmcnt", "flat memory", ordered=False),
    Stream("expcnt", "export"),
)


def _event_gfx9(i: Instruction) -> Event | None:
    name = i.name
    if name.startswith("v_") or name in ("buffer_inv", "ds_nop"):
        return None
    if name.startswith("ds_"):
        return Event((1,), writes_lds=writes_lds(name))
    if name.startswith(_VECTOR):
        return Event((0,), to_lds=_loads_to_lds(i))
    if name.startswith("flat_"):
        return Event((3, 4))
    if name.startswith(_SCALAR) or name.startswith("s_sendmsg"):
        return Event((2,))
    return Event((5,)) if name == "exp" else None


def _waits_gfx9(i: Instruction) -> Mapping[str, int]:
    if i.name != "s_waitcnt":
        return {}
    return _split_gfx9(i.mods.get("simm16", 0))


@lru_cache(maxsize=256)
def _split_gfx9(v: int) -> Mapping[str, int]:
    fields = {
        "vmcnt": v & 15 | (v >> 14 & 3) << 4,
        "expcnt": v >> 4 & 7,
        "lgkmcnt": v >> 8 & 15,
    }
    return {name: n for name, n in fields.items() if n < _LIMITS_GFX9[name]}


_LIMITS_GFX9 = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}

# gfx11 -------------------------------------------------------------------------------------------
_GFX11 = (
    Stream("vmcnt", "vector memory"),
    Stream("lgkmcnt", "LDS"),
    Stream("lgkmcnt", "scalar memory", ordered=False),
    Stream("vscnt", "vector store"),
    Stream("expcnt", "export"),
    Stream("vmcnt", "image sample"),
    Stream("vmcnt", "ray query"),
)


def _event_gfx11(i: Instruction) -> Event | None:
    name = i.name
    if name.startswith("v_") or name in ("buffer_gl0_inv", "buffer_gl1_inv", "ds_nop"):
        return None
    if name.startswith("ds_"):
        return Event((1,), writes_lds=writes_lds(name))
    if name.startswith(("image_sample", "image_gather")):
        return Event((5,))
    if name.startswith("image_bvh"):
        return Event((6,))
    if name.startswith(_VECTOR):
        if _is_store(i):
            return Event((3,))
        return Event((0,), to_lds=_loads_to_lds(i))
    if name.startswith("flat_"):
        return Event((3, 1)) if _is_store(i) else Event((0, 1))
    if name.startswith(_SCALAR) or name.startswith("s_sendmsg"):
        return Event((2,))
    return Event((4,)) if name in ("exp", "export") else None


def _waits_gfx11(i: Instruction) -> Mapping[str, int]:
    value = i.mods.get("simm16", 0)
    if i.name == "s_waitcnt":
        fields = {"expcnt": value & 7, "lgkmcnt": value >> 4 & 63, "vmcnt": value >> 10 & 63}
        return {name: n for name, n in fields.items() if n < _LIMITS_GFX11[name]}
    counter = i.name.removeprefix("s_waitcnt_")
    return {counter: _immediate(i)} if counter in _LIMITS_GFX11 else {}


_LIMITS_GFX11 = {"vmcnt": 63, "lgkmcnt": 63, "vscnt": 63, "expcnt": 7}

# gfx12 -------------------------------------------------------------------------------------------
_GFX12 = (
    Stream("loadcnt", "vector memory"),
    Stream("dscnt", "LDS"),
    Stream("kmcnt", "scalar memory", ordered=False),
    Stream("storecnt", "vector store"),
    Stream("expcnt", "export"),
    Stream("samplecnt", "image sample"),
    Stream("bvhcnt", "ray query"),
    Stream("asynccnt", "asynchronous LDS transfer"),
    Stream("tensorcnt", "tensor transfer"),
)
_LIMITS_GFX12 = {
    "loadcnt": 63,
    "storecnt": 63,
    "samplecnt": 63,
    "bvhcnt": 7,
    "dscnt": 63,
    "kmcnt": 31,
    "expcnt": 7,
    "asynccnt": 63,
    "tensorcnt": 63,
}


def _event_gfx12(i: Instruction) -> Event | None:
    name = i.name
    if name.startswith("v_") or name == "ds_nop":
        return None
    if name.startswith("ds_"):
        return Event((1,), writes_lds=writes_lds(name))
    if name.startswith(("image_sample", "image_gather")):
        return Event((5,))
    if name.startswith("image_bvh"):
        return Event((6,))
    if name.startswith("tensor_"):
        return Event((8,), to_lds=name.startswith("tensor_load"))
    if "_async_" in name and name.startswith("global_"):
        return Event((7,), to_lds="_load_async_to_lds_" in name)
    if name.startswith(_VECTOR):
        if _is_store(i) or name in ("global_wb", "global_wbinv"):
            return Event((3,))
        return Event((0,), to_lds=_loads_to_lds(i))
    if name.startswith("flat_"):
        return Event((3, 1)) if _is_store(i) else Event((0, 1))
    if name.startswith((*_SCALAR, "s_sendmsg", "s_prefetch")):
        return Event((2,))
    return Event((4,)) if name == "export" else None


def _waits_gfx12(i: Instruction) -> Mapping[str, int]:
    if not i.name.startswith("s_wait_"):
        return {}
    if i.name == "s_wait_idle":
        return dict.fromkeys(_LIMITS_GFX12, 0)
    counters = [c for c in i.name.removeprefix("s_wait_").split("_") if c in _LIMITS_GFX12]
    value = _immediate(i)
    if len(counters) == 2:
        return {counters[0]: value >> 8 & 63, counters[1]: value & 63}
    return {counters[0]: value} if counters else {}


def _immediate(i: Instruction) -> int:
    if "simm16" in i.mods:
        return i.mods["simm16"]
    constants = [int(o.value) for o in i.operands if o.constant]
    return constants[-1] if constants else 0


MODELS: Mapping[str, CounterModel] = {
    "gfx9": CounterModel(_GFX9, _LIMITS_GFX9, _event_gfx9, _waits_gfx9),
    "gfx11": CounterModel(_GFX11, _LIMITS_GFX11, _event_gfx11, _waits_gfx11),
    "gfx12": CounterModel(_GFX12, _LIMITS_GFX12, _event_gfx12, _waits_gfx12),
}


def counter_model(arch: str) -> CounterModel:
    """Return the counters of an architecture.

    Raises:
        TargetError: Its family has no model.
    """
    family = arch[:-2]
    if family not in MODELS:
        raise TargetError(
            "the sanitizer does not know the wait counters of this architecture",
            code="FLY-T738",
            value=arch,
            allowed=", ".join(f"{name}xx" for name in MODELS),
        )
    return MODELS[family]
