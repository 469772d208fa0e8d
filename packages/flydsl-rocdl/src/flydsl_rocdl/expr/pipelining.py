"""Software pipelines of loads into LDS, whose waits are counted from program order."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import UserValueError
from flydsl_rocdl.expr.scheduling import lds_barrier
from flydsl_rocdl.expr.waits import asyncmark, wait_asyncmark

__all__ = ["Pipeline", "pipeline"]

_MOST = 63


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages of loads into LDS that run ahead of their use.

    Issue the loads of a stage, then `commit`; before using a stage, `wait`. The compiler counts, on
    every path to a wait, the loads that were issued after the stage waited for, so a stage may hold
    any number of copies and loops need no numbers by hand.

    Attributes:
        ahead: Stages that may still be on their way after `wait`.
    """

    ahead: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.ahead <= _MOST:
            raise UserValueError("a pipeline runs 0 to 63 stages ahead", code="FLY-U613",
                                 value=self.ahead, allowed=f"0 to {_MOST}")  # fmt: skip

    def commit(self) -> None:
        """End the stage whose loads were issued since the last commit."""
        asyncmark()

    def wait(self, ahead: int | None = None, *, synchronize: bool = True) -> None:
        """Wait until all stages but the newest `ahead` have arrived, for the whole workgroup.

        Args:
            ahead: Stages that may stay outstanding; default the pipeline's own.
            synchronize: Follow with `lds_barrier`, so that the loads of other waves have arrived
                too. Before a stage is loaded again, the waves that read it need another one.
        """
        wait_asyncmark(self.ahead if ahead is None else ahead)
        if synchronize:
            lds_barrier()


def pipeline(ahead: int = 0) -> Pipeline:
    """Return a pipeline that waits for all but the newest `ahead` stages.

    Raises:
        UserValueError: Out of range.
    """
    return Pipeline(ahead)
