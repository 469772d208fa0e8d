"""What the emulator says of accesses outside the buffers of a launch."""

from __future__ import annotations

import pytest

from flydsl_emu.execution.host import Allocation, Allocations

FIRST = Allocation(4096, 8192, True, "tensor argument 0")
SECOND = Allocation(8192, 12288, False, "tensor argument 1")


@pytest.mark.parametrize(
    ("address", "write", "code", "text"),
    [
        (8200, True, "FLY-U716", "argument 1, which is read-only (8 bytes past the end of tensor"),
        (12300, True, "FLY-U711", "12 bytes past the end of tensor argument 1"),
        (4000, False, "FLY-U711", "96 bytes before tensor argument 0"),
        (8190, True, "FLY-U711", "reaching across the end of tensor argument 0"),
    ],
)  # fmt: skip
def test_a_fault_names_the_buffers_beside_it(
    address: int, write: bool, code: str, text: str
) -> None:
    fault = Allocations([SECOND, FIRST]).explain(address, 4, write)
    assert fault.code == code
    assert text in str(fault)


def test_without_a_buffer_that_may_be_written() -> None:
    fault = Allocations([SECOND]).explain(8200, 4, True)
    assert "read-only (and the launch has no writable buffers)" in str(fault)
