"""The cache on disk: a store of checked entries, and what identifies the compiler that made them.

* `disk`: `DiskCache`, which knows nothing of what it keeps, and `disk_cache` by the settings.
* `fingerprint`: changes with every installed, upgraded or edited package that can change code.

To keep something new: make a key from `compiler_fingerprint` and all that the content depends on,
and write it with `keep`.
"""

from flydsl.caching.disk import DiskCache, Entry, disk_cache, warn_if_no_folder
from flydsl.caching.fingerprint import (
    SourcesState,
    compiler_fingerprint,
    keep,
    loaded_folders,
    look_at_compiler,
    sources_hold,
    sources_state,
)

__all__ = [
    "DiskCache",
    "Entry",
    "SourcesState",
    "compiler_fingerprint",
    "disk_cache",
    "keep",
    "loaded_folders",
    "look_at_compiler",
    "sources_hold",
    "sources_state",
    "warn_if_no_folder",
]
