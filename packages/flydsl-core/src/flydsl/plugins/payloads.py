"""Payload types that cross the plugin boundary; frozen, picklable, free of MLIR.

Hook specifications (`flydsl.plugins.hookspecs`) are typed with these. Third parties construct them,
so a field is only ever added with a default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "ArgLeaf",
    "ArgSpec",
    "CodeObject",
    "CompileEvent",
    "Config",
    "KernelArg",
    "KernelEntry",
    "KernelInfo",
    "LaunchShape",
    "NativeRead",
    "Pipeline",
    "RuntimeInfo",
    "Stage",
    "TargetInfo",
    "TargetSpec",
]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """One architecture with its feature choices, e.g. ``arch:feature+:other-``.

    Attributes:
        backend: Name of the plugin that owns the architecture.
        arch: Architecture name.
        features: Sorted ``(name, on)`` pairs; a feature that is not listed means "any".
    """

    backend: str
    arch: str
    features: tuple[tuple[str, bool], ...] = ()

    def __str__(self) -> str:
        return self.arch + "".join(f":{name}{'+' if on else '-'}" for name, on in self.features)


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What a plugin announces about one architecture it can compile for.

    Attributes:
        name: Architecture name, unique over all plugins.
        backend: The owning plugin's backend name.
        summary: One line for listings.
        distribution: The distribution that provides it; filled in by the plugin manager if empty.
    """

    name: str
    backend: str
    summary: str = ""
    distribution: str = ""


@dataclass(frozen=True, slots=True)
class ArgLeaf:
    """One scalar of a launcher argument as it crosses the host ABI.

    Attributes:
        format: `struct` format character (``P`` is written ``Q``): ``Q q I i H h B b e f d``.
        expression: Python expression of the argument ``v`` that yields the scalar, for the
            generated dispatch closure, e.g. ``"v.data_ptr()"`` or ``"v.shape[0]"``. Names other
            than ``v`` are looked up in `ArgSpec.names`.
        low, high: Inclusive range for integers; the closure raises outside it. None: unchecked.
    """

    format: str
    expression: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class NativeRead:
    """How machine code reads an argument, on the launch path without interpreted code.

    It must accept nothing that `ArgSpec.guard` refuses, and yield what the leaves' expressions do.

    Attributes:
        kind: ``"integer"`` and ``"float"``: the one leaf is the value itself. ``"attribute"``: an
            unsigned integer attribute, of an object whose attribute `where`, if named, is
            `device`. ``"current-stream"``: the stream that is current.
            ``"tensor"``: through a DLPack exchange function. ``"struct"``: by its parts.
        type: The type that the argument must have exactly.
        value: For ``"attribute"`` its name; for ``"integer"`` and ``"float"`` the name of the
            attribute that holds it, or nothing; for ``"struct"`` the name of the attribute that
            holds a dictionary of the fields. For a tensor the name of a method that returns False
            unless the memory holds other values than the tensor's, or nothing.
        flag: For a tensor, where that can be seen: the offset in the object of the address of a
            structure (0 for none), the offset of a word in there, and its bits that must be unset.
        where: For an attribute, the name of the one that tells the device, or nothing.
        function: For a tensor, the address of ``dltensor_from_py_object_no_sync``.
        dtype, device: A ``DLDataType`` and a ``DLDevice`` as integers (little-endian); for an
            attribute what `where` must hold.
        rank: Number of axes.
        alignment: Largest power of two up to 16 that divides the address.
        unit: The axis whose stride is one; -1 when no axis' is.
        wide: Axes with extents above 2**31 - 1; all other extents are at most that.
        sources: What the leaves after the address are: an axis, and whether its stride is meant.
    """

    kind: Literal["integer", "float", "attribute", "current-stream", "tensor", "struct"]
    type: type
    value: str = ""
    where: str = ""
    function: int = 0
    dtype: int = 0
    device: int = 0
    rank: int = 0
    alignment: int = 0
    unit: int = -1
    wide: tuple[int, ...] = ()
    sources: tuple[tuple[int, bool], ...] = ()
    flag: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """How one launcher argument is specialised and passed.

    Attributes:
        key: Distinguishes specialisations: arguments with equal keys share one compilation.
        ir_type: MLIR type text of the traced parameter; empty for a compile-time value.
        leaves: The scalars passed at run time, in ABI order (DESIGN §11.2).
        guard: Python expression over ``v`` that is true when this spec also fits ``v``.
        names: Extra names used by `guard` and by the leaves' expressions.
        static: The value itself when it is a compile-time value; the type of a struct.
        device: ``"cpu"``, ``"cuda:0"``, … of a tensor argument; empty when it has no device.
        stream_device: Index of the device of a stream argument; -1 when that is not known.
        read_only: The memory of a tensor argument must not be written: a kernel that does is
            refused.
        native: How machine code reads it; None if only the expressions do.
        parts: The fields of a struct, whose `ir_type` is ``"struct"``, by name; each run-time one
            is a parameter of its own of the traced function.
    """

    key: Hashable
    ir_type: str
    leaves: tuple[ArgLeaf, ...] = ()
    guard: str = "True"
    names: Mapping[str, object] = field(default_factory=dict)
    static: object = None
    device: str = ""
    stream_device: int = -1
    read_only: bool = False
    native: NativeRead | None = None
    parts: tuple[tuple[str, ArgSpec], ...] = ()

    @property
    def devices(self) -> list[str]:
        """The devices of the argument and its parts."""
        inner = [device for _, part in self.parts for device in part.devices]
        return [self.device, *inner] if self.device else inner

    @property
    def stream_devices(self) -> list[int]:
        """The devices of the streams in the argument, as far as they are known."""
        inner = [device for _, part in self.parts for device in part.stream_devices]
        return [self.stream_device, *inner] if self.stream_device >= 0 else inner


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a pipeline.

    Attributes:
        name: Shown in dumps and timings; for ``kind="pass"`` also the registered pass name.
        kind: ``"pass"`` runs a pass from `flydsl_passes`; ``"mlir"`` runs an upstream pipeline.
        text: For ``"mlir"``: the textual pipeline, e.g. ``"builtin.module(canonicalize,cse)"``.
        options: Keyword arguments for a ``"pass"``, as sorted pairs.
    """

    name: str
    kind: Literal["pass", "mlir"]
    text: str = ""
    options: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The ordered stages that turn a traced module into one ready for `flydsl_emit`."""

    stages: tuple[Stage, ...]

    def inserted_before(self, name: str, stage: Stage) -> Pipeline:
        """Return a pipeline with `stage` placed before the stage called `name`.

        Raises:
            ValueError: No stage has that name.
        """
        names = [s.name for s in self.stages]
        if name not in names:
            raise ValueError(f"no stage {name!r}; the pipeline has {', '.join(names)}")
        at = names.index(name)
        return Pipeline((*self.stages[:at], stage, *self.stages[at:]))

    def inserted_after(self, name: str, stage: Stage) -> Pipeline:
        """Return a pipeline with `stage` placed after the stage called `name`.

        Raises:
            ValueError: No stage has that name.
        """
        names = [s.name for s in self.stages]
        if name not in names:
            raise ValueError(f"no stage {name!r}; the pipeline has {', '.join(names)}")
        at = names.index(name) + 1
        return Pipeline((*self.stages[:at], stage, *self.stages[at:]))


@dataclass(frozen=True, slots=True)
class KernelArg:
    """One kernel argument as the code object's metadata lists it (offsets and sizes in bytes)."""

    name: str
    kind: str
    offset: int
    size: int
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """Resources and ABI of one kernel in a code object.

    Byte quantities unless named otherwise; `vgpr`, `agpr` and `sgpr` count 32-bit registers;
    `waves_per_simd` is the occupancy that the register and static LDS use allow.
    """

    name: str
    args: tuple[KernelArg, ...]
    kernarg_size: int
    kernarg_align: int
    lds_static: int = 0
    uses_dynamic_lds: bool = False
    vgpr: int = 0
    agpr: int = 0
    sgpr: int = 0
    scratch: int = 0
    vgpr_spills: int = 0
    sgpr_spills: int = 0
    waves_per_simd: int = 0
    wave_size: int = 0
    max_threads: int = 0
    required_block: tuple[int, int, int] | None = None

    @property
    def spills(self) -> int:
        """Spilled registers, vector and scalar together."""
        return self.vgpr_spills + self.sgpr_spills


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A compiled device module.

    Attributes:
        format: ``"hsaco"``, ``"cubin"``, … ; a runtime says which formats it loads.
        target: What it was compiled for.
        data: The bytes that a runtime loads.
        kernels: Per-kernel information, in module order.
        isa: Assembly text, or empty when it was not asked for.
        remarks: Back-end remarks and warnings, one a line.
    """

    format: str
    target: TargetSpec
    data: bytes
    kernels: tuple[KernelInfo, ...]
    isa: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of `data`."""
        return hashlib.sha256(self.data).hexdigest()

    def kernel(self, name: str) -> KernelInfo:
        """Return the information of the kernel called `name`.

        Raises:
            KeyError: There is no such kernel.
        """
        for info in self.kernels:
            if info.name == name:
                return info
        raise KeyError(f"no kernel {name!r}; the code object has {[k.name for k in self.kernels]}")


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """A device runtime that a plugin offers.

    Attributes:
        name: ``"emu"``, ``"hip"``, ….
        factory: ``"module:callable"`` that returns a `flydsl.runtime.DeviceRuntime`.
        formats: Code-object formats it loads.
        device_types: Tensor device types it serves (``"cpu"``, ``"cuda"``).
        emulated: True when it does not drive a real device.
        default_target: Target text used for a launch when nothing else names one; only for a
            runtime that adapts to the code object. A notice says so to the user.
    """

    name: str
    factory: str
    formats: tuple[str, ...]
    device_types: tuple[str, ...]
    emulated: bool = False
    default_target: str = ""


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A ready kernel that a family announces; `function` is ``"module:callable"``."""

    name: str
    family: str
    function: str
    targets: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """One tuning candidate: compile-time keyword values and compile hints, as sorted pairs."""

    values: tuple[tuple[str, Hashable], ...] = ()
    hints: tuple[tuple[str, Hashable], ...] = ()


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """Something that happened while compiling, for listeners.

    Attributes:
        kind: ``"trace"``, ``"pass"``, ``"translate"``, ``"optimise"``, ``"codegen"``, ``"link"``,
            ``"host"``, ``"cache-hit"``, ``"disk-hit"``, ``"cache-miss"`` or ``"done"``.
        name: Pass, kernel or launcher name.
        target: Target text.
        wall_seconds, cpu_seconds: Duration; zero for instantaneous events.
    """

    kind: str
    name: str
    target: str = ""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """What a compile knows of one launch, for `Target.check_launch`; None means "only at run time".

    Attributes:
        kernel: Kernel name, for messages.
        grid: Workgroups along x, y, z.
        block: Threads along x, y, z.
        cluster: Workgroups per cluster along x, y, z.
        shared_bytes: Static and dynamic shared memory together.
        shared_uses: What the shared memory is for, largest first, for messages.
    """

    kernel: str
    grid: tuple[int | None, int | None, int | None] = (None, None, None)
    block: tuple[int | None, int | None, int | None] = (None, None, None)
    cluster: tuple[int | None, int | None, int | None] = (1, 1, 1)
    shared_bytes: int | None = None
    shared_uses: tuple[str, ...] = ()
