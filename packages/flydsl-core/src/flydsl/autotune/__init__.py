"""Choosing the fastest of several configurations of a launcher, each checked before it is timed.

* `configs`: `Config`, one candidate.
* `memory`: saving and restoring what tensor arguments hold; `comparing`: comparing it.
* `searching`: compiles, prunes, checks and measures candidates.
* `results`: what was found, on disk and in tables to ship.
* `keys`: which calls share a result.
* `workers`: trying candidates in many processes.
* `tuner`: the decorator `autotune` and `do_bench`.

The objective comes from the device runtime (`DeviceRuntime.measure`): time on a GPU, the model of
the execution report in the emulator.
"""

from flydsl.autotune.configs import Config
from flydsl.autotune.results import Result, Trial
from flydsl.autotune.tuner import Autotuned, autotune, do_bench

__all__ = ["Autotuned", "Config", "Result", "Trial", "autotune", "do_bench"]
