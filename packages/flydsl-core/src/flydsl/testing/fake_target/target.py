"""`ToyTarget`: the host seen as a GPU whose warps have one thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from flydsl.config import CompileOptions
from flydsl.plugins.payloads import CodeObject, LaunchShape, Pipeline, Stage, TargetSpec
from flydsl.plugins.protocols import MlirModule
from flydsl.targets import check_limits, neutral_stages

__all__ = ["ARCH", "BACKEND", "FORMAT", "ToyTarget"]

ARCH = "toy"
BACKEND = "toy"
FORMAT = "toy-object"
"""`CodeObject.format`: a relocatable object of the host."""

_SPACES: Mapping[str, int] = MappingProxyType({"generic": 0, "global": 0, "register": 0})
_UPSTREAM = (
    "builtin.module(gpu.module(convert-scf-to-cf,convert-to-llvm,reconcile-unrealized-casts))"
)


@dataclass(frozen=True, slots=True)
class ToyTarget:
    """The toy target.

    Attributes:
        spec: The toy architecture; it has no features.
    """

    spec: TargetSpec

    @property
    def name(self) -> str:
        """``"toy"``."""
        return str(self.spec)

    @property
    def backend(self) -> str:
        """``"toy"``."""
        return self.spec.backend

    @property
    def arch(self) -> str:
        """``"toy"``."""
        return self.spec.arch

    @property
    def warp_size(self) -> int:
        """One: threads run one after another."""
        return 1

    @property
    def address_spaces(self) -> Mapping[str, int]:
        """All in the host's one address space; there is no shared memory."""
        return _SPACES

    @property
    def shared_capacity(self) -> int:
        """None at all."""
        return 0

    @property
    def shared_banks(self) -> int:
        """None at all."""
        return 0

    @property
    def max_threads_per_block(self) -> int:
        """A small limit, so that tests can exceed it."""
        return 1024

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """Small limits, so that tests can exceed them."""
        return (1 << 20, 1 << 10, 1 << 10)

    @property
    def object_format(self) -> str:
        """`FORMAT`."""
        return FORMAT

    def atoms(self) -> Mapping[str, type]:
        """Return no atoms of its own; the universal ones work."""
        return {}

    def pipeline(self, options: CompileOptions) -> Pipeline:
        """Return the neutral stages, the toy's pass and the upstream conversions."""
        del options
        lower = Stage("convert-fly-to-toy", "pass")
        return Pipeline((*neutral_stages(), lower, Stage("convert-to-llvm", "mlir", _UPSTREAM)))

    def emit(self, module: MlirModule, options: CompileOptions) -> CodeObject:
        """Compile the kernels for the host.

        Raises:
            TargetError: The host's back end refuses the module.
        """
        from flydsl.testing.fake_target.emission import emit

        return emit(module, self, options)

    def fingerprint(self) -> str:
        """Return a version to raise when the generated code changes."""
        return "toy-1"

    def check_launch(self, shape: LaunchShape) -> None:
        """Check a launch against the limits.

        Raises:
            TargetError: A limit is exceeded.
        """
        check_limits(self, shape)
