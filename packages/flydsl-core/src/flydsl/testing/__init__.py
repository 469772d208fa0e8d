"""What FlyDSL ships for tests, ours and those of plugins and kernels.

`fake_target` is a complete, tiny backend called ``toy`` that runs kernels on the host; it exercises
every hook of the target path and is the smallest example of a target plugin. It is not active
unless a test asks for it with `toy_target` (or `flydsl.plugins.isolated`), or a distribution
announces it. `families` has what tests of families of ready kernels share. Put new helpers here
only if other distributions' tests can use them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flydsl.config import scope
from flydsl.plugins import isolated
from flydsl.targets import Target, create_target

__all__ = ["toy_target"]


@contextmanager
def toy_target(*plugins: object) -> Iterator[Target]:
    """Make the toy target the only one, and the chosen one, inside a ``with`` block.

    Args:
        plugins: Further plugins to register.

    Yields:
        The target.

    Raises:
        TargetError: One of `plugins` is unusable or clashes with the toy.
    """
    from flydsl.testing.fake_target import plugin

    with isolated(plugin, *plugins) as manager, scope(FLYDSL_TARGET="toy", FLYDSL_DEVICE=None):
        _ = manager.announced
        yield create_target("toy")
