"""`Unbounded`: values that have an index operator but no length known while tracing."""

from __future__ import annotations

from typing import NoReturn

from flydsl.errors import UserTypeError

__all__ = ["Unbounded"]


class Unbounded:
    """Refuses what Python would build from ``[0]``, ``[1]``, … until an error that never comes."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        """Refuse iteration.

        Raises:
            UserTypeError: Always.
        """
        raise UserTypeError(
            f"a {type(self).__name__} is not iterable: its length is a run-time value",
            code="FLY-U250",
            hint="loop over indices, for i in range(n), and index with i",
        )

    def __contains__(self, item: object) -> NoReturn:
        """Refuse membership tests.

        Raises:
            UserTypeError: Always.
        """
        raise UserTypeError(
            f"`in` does not search a {type(self).__name__}",
            code="FLY-U250",
            value=item,
            hint="compare the elements in a loop",
        )
