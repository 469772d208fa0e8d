"""Matrix products run on the emulator; fixtures are at the root of the repository."""

from __future__ import annotations

import pytest

pytest.importorskip("flydsl_emu")
