"""Launching a kernel: code in memory, arguments, register set-up, batches, errors in user terms."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flydsl.errors import FlyDSLError, TargetError, UserError
from flydsl_emu.codeobject import Kernel, LineTable, LoadableCode, SourceLine
from flydsl_emu.decode import Instruction
from flydsl_emu.numpy_tier.engine import Batch, Limits
from flydsl_emu.numpy_tier.faults import AccessFault, KernelFault
from flydsl_emu.numpy_tier.hidden import hidden_arguments
from flydsl_emu.numpy_tier.host import Allocation, Allocations
from flydsl_emu.numpy_tier.memory import (
    PRIVATE_APERTURE,
    SHARED_APERTURE,
    LocalMemory,
    MemoryAccess,
)
from flydsl_emu.numpy_tier.program import Program
from flydsl_emu.numpy_tier.state import State
from flydsl_emu.semantics.generation import generation

__all__ = ["DEFAULT_STEP_LIMIT", "Geometry", "LoadedCode", "LoadedKernel"]

Array = Any

DEFAULT_STEP_LIMIT = 20_000_000_000
BATCH_WAVES = 256
_TTMP0 = 108
_RELOCATION_ABS64 = 3
_RELOCATION_RELATIVE64 = 13


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of one launch.

    Attributes:
        grid: Workgroups along x, y, z.
        block: Threads along x, y, z.
        dynamic_lds: Bytes of LDS beyond the kernel's static ones.
        lanes: Lanes of a wave; a launch sets it from the kernel.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int = 0
    lanes: int = 64

    @property
    def threads(self) -> int:
        """Threads of one workgroup."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def waves(self) -> int:
        """Waves of one workgroup."""
        return (self.threads + self.lanes - 1) // self.lanes

    @property
    def workgroups(self) -> int:
        """Workgroups of the launch."""
        return self.grid[0] * self.grid[1] * self.grid[2]


class LoadedCode:
    """A code object placed in host memory with its relocations applied."""

    def __init__(self, code: LoadableCode) -> None:
        self.code = code
        size = code.memory_size
        self._memory = ctypes.create_string_buffer(size + 2 * 4096)
        start = ctypes.addressof(self._memory)
        self.base = (start + 4095) & ~4095
        for segment in code.segments:
            ctypes.memmove(self.base + segment.address, segment.data, len(segment.data))
        for r in code.relocations:
            value = self.base + r.addend
            if r.type == _RELOCATION_ABS64:
                value += code.symbol_values[r.symbol]
            elif r.type != _RELOCATION_RELATIVE64:
                raise TargetError(
                    "the code object has a relocation that the emulator does not apply",
                    code="FLY-T701",
                    value=r.type,
                )
            ctypes.memmove(self.base + r.offset, struct.pack("<Q", value & (1 << 64) - 1), 8)
        self.range = Allocation(self.base, self.base + size, True, ".code object")
        self.kernels = {name: LoadedKernel(self, k) for name, k in code.kernels.items()}
        self._lines: LineTable | None = None

    @property
    def lines(self) -> LineTable:
        """Source lines by address in the code object."""
        if self._lines is None:
            self._lines = self.code.line_table()
        return self._lines

    def source_line(self, pc: int) -> SourceLine | None:
        """Return the source line of the instruction loaded at `pc`, or None if it is unknown."""
        return self.lines.find(pc - self.base)


@dataclass(slots=True)
class LaunchRecord:
    """What one launch executed, for reports.

    Attributes:
        kernel: The kernel.
        geometry: Shape.
        program: Decoded code.
        counts: Wave executions of each block, by its address.
        accesses: Per-space statistics when they were asked for.
    """

    kernel: Kernel
    geometry: Geometry
    program: Program
    counts: dict[int, int] = field(default_factory=dict)
    accesses: Any = None

    @property
    def steps(self) -> int:
        """Wave-instructions executed."""
        return sum(n * len(self.program.block(pc).instructions) for pc, n in self.counts.items())


class LoadedKernel:
    """One kernel of a loaded code object; keeps bound batches for later launches."""

    def __init__(self, code: LoadedCode, kernel: Kernel) -> None:
        self.code = code
        self.kernel = kernel
        self._program: Program | None = None
        self._batches: dict[tuple[Geometry, int], Batch] = {}

    @property
    def program(self) -> Program:
        """The decoded kernel."""
        if self._program is None:
            self._program = Program(self.kernel, self.code.base + self.kernel.address)
        return self._program

    def launch(
        self,
        geometry: Geometry,
        kernarg: bytes,
        allocations: Iterable[Allocation],
        steps: int = DEFAULT_STEP_LIMIT,
        observer: Any = None,
    ) -> LaunchRecord:
        """Run the kernel on a whole grid.

        Args:
            geometry: Shape of the launch.
            kernarg: Explicit arguments at their offsets; hidden ones are filled in.
            allocations: Host memory that the kernel may access.
            steps: Limit of wave-instructions.
            observer: Object whose ``batch(batch)`` is called before each batch, or None.

        Raises:
            UserError: The kernel accessed memory it may not, or never ends.
            TargetError: Something the emulator does not implement.
        """
        geometry = replace(geometry, lanes=self.kernel.wave_size)
        record = LaunchRecord(self.kernel, geometry, self.program)
        if geometry.workgroups == 0:
            return record
        arguments = _Arguments(self, geometry, kernarg)
        memory = Allocations((*allocations, *arguments.ranges, self.code.range))
        per_batch = max(1, BATCH_WAVES // geometry.waves)
        limits = Limits(steps)
        entry = self.program.base + (256 if self.kernel.descriptor.preload_length else 0)
        with np.errstate(all="ignore"):
            for first in range(0, geometry.workgroups, per_batch):
                count = min(per_batch, geometry.workgroups - first)
                batch = self._batch(geometry, count)
                batch.machine.allocations = memory
                _Setup(self.kernel, geometry, arguments).fill(batch, first)
                for bound in batch.blocks.values():
                    bound.waves = 0
                batch.first = first
                batch.plain()
                if observer is not None:
                    observer.batch(batch)
                try:
                    batch.run(entry, limits)
                except KernelFault as fault:
                    raise _explained(fault, self, batch, geometry, first) from None
                for pc, bound in batch.blocks.items():
                    record.counts[pc] = record.counts.get(pc, 0) + bound.waves
        return record

    def _batch(self, geometry: Geometry, groups: int) -> Batch:
        key = (geometry, groups)
        found = self._batches.get(key)
        if found is None:
            if len(self._batches) >= 4:
                self._batches.clear()
            found = self._batches[key] = self._new_batch(geometry, groups)
        return found

    def _new_batch(self, geometry: Geometry, groups: int) -> Batch:
        kernel = self.kernel
        waves = groups * geometry.waves
        # The unified file of CDNA3 holds AGPRs above the vector registers; count them apart.
        agprs = 256 if kernel.agprs else 0
        lane_count = geometry.lanes
        vgprs = min(kernel.vgprs + 8, 512) if not agprs else 264
        state = State(waves, vgprs, agprs, lane_count)
        group = np.repeat(np.arange(groups), geometry.waves)
        lds_size = kernel.descriptor.group_segment + geometry.dynamic_lds
        stride = (lds_size + 15) & ~15
        lds = LocalMemory(
            np.zeros(max(16, groups * stride), np.uint8),
            (group * stride).astype(np.int64)[:, None],
            lds_size,
            "FLY-U712",
            "LDS",
        )
        private = (kernel.descriptor.private_segment + 15) & ~15
        lanes = np.arange(waves * lane_count, dtype=np.int64).reshape(waves, lane_count)
        scratch = LocalMemory(
            np.zeros(max(16, waves * lane_count * private), np.uint8),
            lanes * private,
            private,
            "FLY-U717",
            "scratch",
        )
        machine = MemoryAccess(state, Allocations(()), lds, scratch)
        return Batch(self.program, machine, group)


class _Arguments:
    """Kernel arguments, dispatch packet and their memory."""

    def __init__(self, loaded: LoadedKernel, geometry: Geometry, kernarg: bytes) -> None:
        kernel = loaded.kernel
        size = max(kernel.descriptor.kernarg_size, len(kernarg), 16)
        data = bytearray(size)
        data[: len(kernarg)] = kernarg
        for offset, value in hidden_arguments(kernel, geometry):
            data[offset : offset + len(value)] = value
        self.kernarg = ctypes.create_string_buffer(bytes(data), size + 64)
        self.address = (ctypes.addressof(self.kernarg) + 63) & ~63
        ctypes.memmove(self.address, bytes(data), size)
        self.data = bytes(data)
        grid = [g * b for g, b in zip(geometry.grid, geometry.block, strict=True)]
        packet = struct.pack(
            "<HHHHHHIIIIIQQQQ",
            2,
            3,
            *geometry.block,
            0,
            *grid,
            kernel.descriptor.private_segment,
            kernel.descriptor.group_segment + geometry.dynamic_lds,
            loaded.code.base + kernel.descriptor_address,
            self.address,
            0,
            0,
        )
        self.packet = ctypes.create_string_buffer(packet, 64 + 64)
        self.packet_address = (ctypes.addressof(self.packet) + 63) & ~63
        ctypes.memmove(self.packet_address, packet, 64)
        self.ranges = (
            Allocation(self.address, self.address + size, False, ".arguments"),
            Allocation(self.packet_address, self.packet_address + 64, False, ".dispatch packet"),
        )


class _Setup:
    """Initial register contents (LLVM's amdhsa calling convention)."""

    def __init__(self, kernel: Kernel, geometry: Geometry, arguments: _Arguments) -> None:
        self.kernel = kernel
        self.geometry = geometry
        self.arguments = arguments

    def fill(self, batch: Batch, first: int) -> None:
        """Set registers and LDS for workgroups `first` and up."""
        state, geometry = batch.state, self.geometry
        state.vector.fill(0)
        state.accumulation.fill(0)
        state.scalar.fill(0)
        state.scc.fill(False)
        batch.machine.local["lds"].data.fill(0)
        state.scalar[236] = SHARED_APERTURE
        state.scalar[238] = PRIVATE_APERTURE
        ids = np.arange(first, first + batch.groups)
        gx, gy, _ = geometry.grid
        workgroup = (ids % gx, ids // gx % gy, ids // (gx * gy))
        at = self._user_sgprs(state)
        identifiers = [axis[batch.workgroup].astype(np.uint32) for axis in workgroup]
        if generation(self.kernel.arch).ids_in_traps:
            state.scalar[_TTMP0 + 9, :, 0] = identifiers[0]
            state.scalar[_TTMP0 + 7, :, 0] = identifiers[1] | identifiers[2] << np.uint32(16)
        else:
            for axis in self.kernel.descriptor.workgroup_id_axes:
                state.scalar[at, :, 0] = identifiers[axis]
                at += 1
        lanes = geometry.lanes
        threads = np.arange(geometry.waves * lanes)
        bx, by, _ = geometry.block
        packed = threads % bx | threads // bx % by << 10 | threads // (bx * by) << 20
        inside = threads < geometry.threads
        item = np.where(inside, packed, 0).astype(np.uint32).reshape(geometry.waves, lanes)
        state.vector[0] = np.tile(item, (batch.groups, 1))
        state.active = None
        state.live[...] = True
        state.set_exec(np.tile(inside.reshape(geometry.waves, lanes), (batch.groups, 1)))

    def _user_sgprs(self, state: State) -> int:
        descriptor, arguments = self.kernel.descriptor, self.arguments
        values = {
            0: (0, 0, 0, 0),
            1: _halves(arguments.packet_address),
            2: (0, 0),
            3: _halves(arguments.address),
            4: (0, 0),
            5: (0, 0),
            6: (descriptor.private_segment,),
        }
        if descriptor.properties & 0b100:
            raise TargetError(
                f"kernel {self.kernel.name!r} asks for a queue pointer", code="FLY-T705"
            )
        at = 0
        for bit, words in values.items():
            if descriptor.properties >> bit & 1:
                for word in words:
                    state.scalar[at] = word
                    at += 1
        for k in range(descriptor.preload_length):
            offset = 4 * (descriptor.preload_offset + k)
            state.scalar[at] = struct.unpack_from("<I", arguments.data, offset)[0]
            at += 1
        return max(at, descriptor.user_sgprs)


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32


def _explained(
    fault: KernelFault,
    loaded: LoadedKernel,
    batch: Batch,
    geometry: Geometry,
    first: int,
) -> FlyDSLError:
    """Return the error that tells where in the launch and in the kernel a fault happened."""
    instruction = next((a for a in fault.args if isinstance(a, Instruction)), None)
    place = [f"kernel {loaded.kernel.name!r}"]
    if fault.wave >= 0:
        index = first + int(batch.workgroup[fault.wave])
        gx, gy, _ = geometry.grid
        wave = fault.wave % geometry.waves
        place.append(f"workgroup ({index % gx}, {index // gx % gy}, {index // (gx * gy)})")
        place.append(f"wave {wave}")
        if fault.lane >= 0:
            thread = _thread(wave * geometry.lanes + fault.lane, geometry)
            place.append(f"lane {fault.lane} (thread {thread})")
    value = ", ".join(place)
    if instruction is not None:
        offset = instruction.pc - loaded.program.base
        value += f"; pc +{offset:#x}: {instruction}"
    kind: type[FlyDSLError] = TargetError if fault.code.startswith("FLY-T") else UserError
    hint = ""
    if isinstance(fault, AccessFault):
        hint = "check the index arithmetic and the bounds test of this access"
    return kind(fault.message, code=fault.code, value=_Text(value), hint=hint)


def _thread(flat: int, geometry: Geometry) -> str:
    bx, by, _ = geometry.block
    return f"{flat % bx}, {flat // bx % by}, {flat // (bx * by)}"


class _Text(str):
    """A string shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
