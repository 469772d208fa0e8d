"""`RocdlTarget`: one AMD architecture as the compiler sees it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from flydsl.config import CompileOptions
from flydsl.errors import TargetError, UserValueError
from flydsl.plugins.payloads import CodeObject, LaunchShape, Pipeline, TargetSpec
from flydsl.plugins.protocols import MlirModule
from flydsl.targets import check_limits
from flydsl_rocdl.arch import ArchFacts, looks_like_arch, lookup
from flydsl_rocdl.arch.tensor import LARGEST_CLUSTER

__all__ = ["ADDRESS_SPACES", "BACKEND", "RocdlTarget", "parse_target"]

BACKEND = "rocdl"
ADDRESS_SPACES: Mapping[str, int] = MappingProxyType(
    {
        "generic": 0,
        "global": 1,
        "shared": 3,
        "constant": 4,
        "register": 5,
        "buffer": 7,
        "wide_buffer": 7,
    }
)
"""LLVM address-space numbers. A buffer pointer is LLVM's fat one: a descriptor and an offset; a
wide one (`flydsl_rocdl.passes.wide`) becomes one where it is used."""


def parse_target(text: str) -> TargetSpec | None:
    """Parse ``arch[:feature+|-]…``; None when the text does not name an AMD architecture.

    Raises:
        TargetError: The architecture or a feature is unknown, or a feature is given twice.
    """
    name, *features = text.split(":")
    if not looks_like_arch(name):
        return None
    facts = lookup(name)
    chosen: dict[str, bool] = {}
    for feature in features:
        word, sign = feature[:-1], feature[-1:]
        if word not in facts.features or sign not in ("+", "-") or word in chosen:
            allowed = ", ".join(f"{f}+ or {f}-" for f in facts.features) or "no features"
            raise TargetError(
                f"{text!r} is not a target id of {name}",
                code="FLY-T601",
                value=feature,
                allowed=f"{allowed}, each at most once",
            )
        chosen[word] = sign == "+"
    return TargetSpec(BACKEND, name, tuple(sorted(chosen.items())))


def _load(name: str) -> Any:
    """Return a module of a higher layer, which this one may not import by statement."""
    return importlib.import_module(name)


@functools.cache
def _source_digest() -> str:
    """Hash the sources of this distribution that decide what code comes out."""
    import hashlib
    from pathlib import Path

    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class RocdlTarget:
    """The AMD target for one architecture.

    Attributes:
        spec: Architecture and feature choices.
        facts: What is known about the architecture.
    """

    spec: TargetSpec
    facts: ArchFacts

    @classmethod
    def from_spec(cls, spec: TargetSpec) -> RocdlTarget:
        """Create the target for `spec`.

        Raises:
            TargetError: The architecture is not supported.
        """
        return cls(spec, lookup(spec.arch))

    @property
    def name(self) -> str:
        """Target-id text."""
        return str(self.spec)

    @property
    def backend(self) -> str:
        """``"rocdl"``."""
        return BACKEND

    @property
    def arch(self) -> str:
        """Architecture name without features."""
        return self.spec.arch

    @property
    def warp_size(self) -> int:
        """Lanes of a wave."""
        return self.facts.wave_size

    @property
    def address_spaces(self) -> Mapping[str, int]:
        """LLVM address-space numbers."""
        return ADDRESS_SPACES

    @property
    def shared_capacity(self) -> int:
        """LDS bytes of one workgroup."""
        return self.facts.lds.capacity

    @property
    def shared_banks(self) -> int:
        """LDS banks of four bytes."""
        return self.facts.lds.banks

    @property
    def max_threads_per_block(self) -> int:
        """Largest workgroup."""
        return self.facts.max_threads_per_block

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """Largest grid in workgroups."""
        return self.facts.max_grid

    @property
    def object_format(self) -> str:
        """``"hsaco"``."""
        return "hsaco"

    @property
    def llvm_features(self) -> str:
        """LLVM subtarget features for the feature choices of `spec`."""
        chosen = [f"{'+' if on else '-'}{name}" for name, on in self.spec.features]
        return ",".join(filter(None, (self.facts.llvm_features, *chosen)))

    def atoms(self) -> Mapping[str, type]:
        """Return the AMD copy and MMA operation classes by the prefix of their text."""
        from flydsl_rocdl.atoms import ATOMS

        return ATOMS

    def pipeline(self, options: CompileOptions) -> Pipeline:
        """Return the neutral stages and the AMD ones."""
        stages: Pipeline = _load("flydsl_rocdl.pipeline").pipeline(self, options)
        return stages

    def emit(self, module: MlirModule, options: CompileOptions) -> CodeObject:
        """Turn a lowered module into a code object.

        Raises:
            TargetError: The back end refuses the module.
        """
        code: CodeObject = _load("flydsl_rocdl.emit").emit(module, self, options)
        return code

    def fingerprint(self) -> str:
        """Return text that changes with this distribution's sources and linker choice."""
        from flydsl_rocdl.settings import LLD

        return f"{_source_digest()};lld={LLD.get() or 'built-in'}"

    def check_launch(self, shape: LaunchShape) -> None:
        """Check a launch against the architecture's limits.

        Raises:
            TargetError: A limit is exceeded, or the architecture has no clusters.
            UserError: The grid is not whole clusters.
        """
        check_limits(self, shape)
        self._check_cluster(shape)

    def _check_cluster(self, shape: LaunchShape) -> None:
        """Check the parts of a launch's cluster that are known."""
        if all(extent == 1 for extent in shape.cluster):
            return
        if "cluster" not in self.facts.has:
            raise TargetError(
                f"kernel {shape.kernel!r} is launched in clusters, which {self.arch} does not have",
                code="FLY-T647",
                value=shape.cluster,
                allowed="no cluster=",
            )
        size = prod(extent for extent in shape.cluster if extent is not None)
        if size > LARGEST_CLUSTER:
            raise TargetError(
                f"kernel {shape.kernel!r} is launched in clusters of {size} workgroups",
                code="FLY-T647",
                value=shape.cluster,
                allowed=f"at most {LARGEST_CLUSTER}",
            )
        for axis, blocks, extent in zip("xyz", shape.grid, shape.cluster, strict=True):
            if blocks is not None and extent is not None and blocks % extent:
                raise UserValueError(
                    f"the grid of kernel {shape.kernel!r} is not whole clusters along {axis}",
                    code="FLY-U654",
                    value=f"{blocks} blocks in clusters of {extent}",
                )
