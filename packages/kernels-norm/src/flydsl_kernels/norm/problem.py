"""What is to be computed: `RowProblem`."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import ConfigError

__all__ = ["ELEMENT_BYTES", "MAX_COLUMNS", "MAX_ROWS", "RowProblem"]

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Element types of rows, with the bytes of an element."""
MAX_COLUMNS = 131072
MAX_ROWS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class RowProblem:
    """An operation on every row of a matrix.

    Attributes:
        rows: Number of rows; zero is allowed.
        columns: Elements of a row, 1 to 131,072.
        dtype: Element type of the rows: ``float32``, ``float16`` or ``bfloat16``.
        operands: How many matrices a thread keeps its share of at once (backward passes: 2).

    Raises:
        ConfigError: One of these is out of range.
    """

    rows: int
    columns: int
    dtype: str
    operands: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.columns <= MAX_COLUMNS:
            raise ConfigError(
                "a row has too many elements, or none",
                code="FLY-C900",
                value=self.columns,
                allowed=f"1 to {MAX_COLUMNS}",
            )
        if not 0 <= self.rows <= MAX_ROWS:
            raise ConfigError(
                "there are too many rows",
                code="FLY-C901",
                value=self.rows,
                allowed=f"0 to {MAX_ROWS}",
                hint="split the matrix",
            )
        if self.dtype not in ELEMENT_BYTES:
            raise ConfigError(
                "rows of this element type are not supported",
                code="FLY-C902",
                value=self.dtype,
                allowed=", ".join(ELEMENT_BYTES),
            )
