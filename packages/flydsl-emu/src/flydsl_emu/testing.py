"""Running single instructions on given values: the bench that opcode tests work at.

Example::

    bench = InstructionBench("gfx942")
    (total,) = bench.evaluate("v_add_u32", a, b)      # arrays of shape (waves, lanes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flydsl_emu.decode import VCC, Instruction, Operand
from flydsl_emu.execution.host import Allocation, Allocations
from flydsl_emu.numpy_tier.arithmetic import DTYPES
from flydsl_emu.numpy_tier.binding import Binder
from flydsl_emu.numpy_tier.memory import LocalMemory
from flydsl_emu.numpy_tier.state import State, pack_mask, unpack_mask
from flydsl_emu.numpy_tier.tensors import Clusters, TransferAccess
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.generation import generation
from flydsl_emu.semantics.modes import DEFAULT_MODE
from flydsl_emu.semantics.registry import IMPLICIT
from flydsl_emu.semantics.value_types import TYPES, Type

__all__ = ["InstructionBench"]

Array = Any

_FIRST_VECTOR = 8
_FIRST_SCALAR = 8
_VECTORS = 256
_FORMATS = {"s": "SOP2", "v": "VOP3"}


class InstructionBench:
    """Registers, LDS and scratch for single instructions.

    Args:
        arch: Architecture.
        waves: Waves; all values have this many rows.
        lds: Bytes of LDS; each wave is its own workgroup.
        scratch: Bytes of scratch per lane.
        memory: Host arrays that global accesses may touch.
        lanes: Lanes of a wave; 0 chooses 64 for CDNA and 32 for the others.
        cluster: Neighbouring workgroups that are a cluster.
    """

    def __init__(
        self,
        arch: str,
        waves: int = 2,
        lds: int = 4096,
        scratch: int = 64,
        memory: Sequence[Array] = (),
        lanes: int = 0,
        cluster: int = 1,
    ) -> None:
        self.arch = arch
        self.waves = waves
        self.memory = tuple(memory)
        self.lane_count = lanes or (64 if generation(arch).unified_file else 32)
        self.state = State(waves, _VECTORS, _VECTORS, self.lane_count)
        self.lds = np.zeros((waves, lds), np.uint8)
        self.scratch = np.zeros((waves, self.lane_count, scratch), np.uint8)
        shape = (waves, self.lane_count)
        owners = np.arange(waves * self.lane_count, dtype=np.int64).reshape(shape)
        ranges = [
            Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, f"array {n}")
            for n, x in enumerate(memory)
        ]
        self.machine = TransferAccess(
            self.state,
            Allocations(ranges),
            LocalMemory(
                self.lds.reshape(-1),
                (np.arange(waves, dtype=np.int64) * lds)[:, None],
                lds,
                "FLY-U712",
                "LDS",
            ),
            LocalMemory(self.scratch.reshape(-1), owners * scratch, scratch, "FLY-U717", "scratch"),
        )
        self.machine.clusters = Clusters(np.arange(waves), cluster, lds)
        self.set_exec(np.ones(shape, np.bool_))

    def set_exec(self, mask: Array) -> None:
        """Set EXEC from truth values of shape ``(waves, lanes)``."""
        self.state.set_exec(mask)

    # Values --------------------------------------------------------------------------------------
    def write(self, operand: Operand, value: Array, type: Type) -> None:
        """Put a value into an operand's registers: ``(waves, lanes)``; ``(waves,)`` for scalars."""
        full = np.asarray(value, DTYPES[type.name])
        bits = full.view(f"u{full.dtype.itemsize}").astype(np.uint64)
        for k in range(type.registers):
            word = np.right_shift(bits, np.uint64(32 * k)).astype(np.uint32)
            if operand.kind == "s":
                self.state.scalar[operand.index + k, :, 0] = word
            else:
                self._file(operand)[operand.index + k] = word

    def read(self, operand: Operand, type: Type) -> Array:
        """Return an operand's registers as a value."""
        words = []
        for k in range(type.registers):
            if operand.kind == "s":
                words.append(self.state.scalar[operand.index + k, :, 0])
            else:
                words.append(self._file(operand)[operand.index + k])
        bits = words[0].astype(np.uint64)
        if len(words) == 2:
            bits |= words[1].astype(np.uint64) << np.uint64(32)
        unsigned = bits.astype(f"u{max(1, type.bits // 8)}")
        return unsigned.view(DTYPES[type.name])

    def _file(self, operand: Operand) -> Array:
        return self.state.accumulation if operand.kind == "a" else self.state.vector

    # Running -------------------------------------------------------------------------------------
    def execute(self, instruction: Instruction, mode: int = DEFAULT_MODE) -> Any:
        """Execute one instruction on the present register contents, under a MODE register."""
        binder = Binder(self.machine, "bench", self.arch, mode)
        with np.errstate(all="ignore"):
            return binder.bind(instruction)()

    def evaluate(
        self,
        name: str,
        *values: Array,
        scc: Array | None = None,
        vcc: Array | None = None,
        old: Array | None = None,
        mods: Mapping[str, int] | None = None,
        format: str = "",
        mode: int = DEFAULT_MODE,
    ) -> tuple[Array, ...]:
        """Run an instruction whose operands its signature describes; return its results.

        Args:
            name: Mnemonic.
            values: One per explicit source: typed arrays, truth values for masks, ints for
                immediates.
            scc: SCC before, ``(waves,)``.
            vcc: VCC before, truth values.
            old: Previous contents of the first result.
            mods: Instruction modifiers.
            format: Encoding family, where it matters.
            mode: MODE register.

        Returns:
            Results in the order of the signature: SCC as ``(waves,)``, masks as truth values.
        """
        semantics = find(name)
        if semantics is None:
            raise KeyError(name)
        scalar = name.startswith(("s_", "v_s_"))
        layout = _Allocator(scalar)
        results = [layout.result(token, name) for token in semantics.results]
        operands = [r for r in results if r is not None]
        self._set_conditions(scc, vcc)
        if old is not None and results[0] is not None:
            self.write(results[0], old, TYPES[semantics.results[0].rpartition(".")[2]])
        pending = list(values)
        for token in semantics.sources:
            if token in IMPLICIT:
                continue
            operands.append(self._place(layout, token, pending.pop(0), scalar))
        instruction = Instruction(
            0x1000,
            8,
            format or _FORMATS[name[0]],
            name,
            "" if scalar else "e64",
            tuple(operands),
            dict(mods or {}),
        )
        self.execute(instruction, mode)
        return tuple(
            self._collect(token, operand)
            for token, operand in zip(semantics.results, results, strict=True)
        )

    def _set_conditions(self, scc: Array | None, vcc: Array | None) -> None:
        if scc is not None:
            self.state.scc[:, 0] = scc
        if vcc is not None:
            self._write_mask(Operand("s", VCC), vcc)

    def _write_mask(self, operand: Operand, mask: Array) -> None:
        words = pack_mask(np.asarray(mask, np.bool_))
        for k in range(self.state.mask_words):
            self.state.scalar[operand.index + k] = words[:, k : k + 1]

    def _place(self, layout: _Allocator, token: str, value: Array, scalar: bool) -> Operand:
        if token == "imm":
            return Operand("k", 16, 1, int(value))
        if token == "mask":
            operand = layout.scalar(2)
            self._write_mask(operand, value)
            return operand
        kind = TYPES[token]
        operand = layout.scalar(kind.registers) if scalar else layout.vector(kind.registers)
        self.write(operand, value, kind)
        return operand

    def _collect(self, token: str, operand: Operand | None) -> Array:
        kind = token.rpartition(".")[2]
        if kind == "scc":
            return self.state.scc[:, 0].copy()
        if kind == "exec":
            return self.state.exec.copy()
        if kind == "execbits":
            return self.machine.ballot(self.state.exec)[:, 0]
        if operand is None:
            raise KeyError(token)
        if kind == "mask":
            return unpack_mask(
                *(self.state.scalar[operand.index + k] for k in range(self.state.mask_words))
            )
        return self.read(operand, TYPES[kind]).copy()


class _Allocator:
    """Hands out registers that do not overlap."""

    def __init__(self, scalar: bool) -> None:
        self._scalar = scalar
        self._next_vector = _FIRST_VECTOR
        self._next_scalar = _FIRST_SCALAR

    def vector(self, count: int) -> Operand:
        """Return unused vector registers."""
        operand = Operand("v", self._next_vector, count)
        self._next_vector += count
        return operand

    def scalar(self, count: int) -> Operand:
        """Return unused scalar registers."""
        operand = Operand("s", self._next_scalar, count)
        self._next_scalar += 2
        return operand

    def result(self, token: str, name: str) -> Operand | None:
        """Return the operand of a result, or None for one that has none."""
        kind = token.rpartition(".")[2]
        if kind in ("scc", "exec", "execbits", "branch", "jump", "barrier"):
            return None
        if kind == "mask":
            return self.scalar(2)
        count = TYPES[kind].registers
        to_scalar = self._scalar or name in ("v_readfirstlane_b32", "v_readlane_b32")
        return self.scalar(count) if to_scalar else self.vector(count)
