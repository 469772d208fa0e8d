"""What FlyDSL ships for tests, ours and those of plugins and kernels.

`fake_target` is a complete, tiny backend called ``toy`` that runs kernels on the host; it exercises
every hook of the target path and is the smallest example of a target plugin. It is not active
unless a test registers it (`flydsl.plugins.isolated`) or a distribution announces it. Put new
helpers here only if other distributions' tests can use them too.
"""

from __future__ import annotations

__all__: list[str] = []
