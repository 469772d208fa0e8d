"""`Config`: one candidate of a tuned launcher, and checks of what chooses among them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flydsl.errors import UserTypeError, UserValueError

__all__ = ["Config", "check_configs", "check_pruning", "check_reference"]

_PRUNING = ("early_config_prune", "perf_model", "top_k")


class Config:
    """Values for parameters of a launcher, and compile hints.

    Args:
        num_warps: Passed as the parameter of that name, if given.
        waves_per_eu: The compile hint of that name, if given.
        pre_hook: Called with the launcher's arguments by name before every run of this candidate.
        **values: Values for the launcher's parameters.

    Raises:
        UserTypeError: A value cannot be written to a results file.
    """

    __slots__ = ("pre_hook", "values", "waves_per_eu")

    def __init__(
        self,
        *,
        num_warps: int | None = None,
        waves_per_eu: int | None = None,
        pre_hook: Callable[[dict[str, Any]], object] | None = None,
        **values: Any,
    ) -> None:
        if "maxnreg" in values:
            raise UserTypeError(
                "AMD GPUs have no limit of registers per thread to set",
                code="FLY-U470",
                value=f"maxnreg={values['maxnreg']}",
                hint="waves_per_eu asks for occupancy",
            )
        for name, value in values.items():
            if not isinstance(value, (int, float, str, bool, type(None))):
                raise UserTypeError(
                    f"the value of {name!r} in a Config cannot be kept in a results file",
                    code="FLY-U470",
                    value=value,
                    allowed="int, float, bool, str or None",
                )
        if num_warps is not None:
            values["num_warps"] = num_warps
        self.values: dict[str, Any] = values
        self.waves_per_eu = waves_per_eu
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """Return the values for the launcher's parameters."""
        return dict(self.values)

    def compiler_opts(self) -> dict[str, Any]:
        """Return the compile hints."""
        return {} if self.waves_per_eu is None else {"waves_per_eu": self.waves_per_eu}

    def to_dict(self) -> dict[str, Any]:
        """Return the content as JSON-ready values; the hook is left out."""
        return {"values": dict(self.values), "hints": self.compiler_opts()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Config:
        """Return the configuration that `to_dict` described."""
        return cls(**content["hints"], **content["values"])

    def _identity(self) -> tuple[str, object]:
        # As text, 1 is not True.
        return repr(sorted(self.values.items())), self.waves_per_eu

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        shown = {**self.values, **self.compiler_opts()}
        return f"Config({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


def check_configs(configs: Sequence[object]) -> None:
    """Refuse what is no configuration."""
    for item in configs:
        if not isinstance(item, Config):
            raise UserTypeError(
                "autotune chooses among configurations",
                code="FLY-U470",
                value=item,
                allowed="Config objects, as Config(block=64)",
            )


def check_pruning(prune: Mapping[str, Any]) -> None:
    """Refuse unknown ways of pruning and numbers of candidates that are none."""
    for name in prune:
        if name not in _PRUNING:
            raise UserValueError(
                f"there is no way of pruning called {name!r}",
                code="FLY-U476",
                value=name,
                allowed=", ".join(_PRUNING),
            )
    top = prune.get("top_k")
    if top is not None and (type(top) is not int or top < 1):
        raise UserValueError(
            "top_k is how many configurations are left",
            code="FLY-U476",
            value=top,
            allowed="1 or more",
        )


def check_reference(launcher: str, function: object) -> None:
    """Refuse a reference that cannot be called with one mapping.

    Args:
        launcher: Name of the launcher that it belongs to.
        function: The reference.
    """
    if callable(function):
        try:
            inspect.signature(function).bind({})
        except ValueError:  # it does not tell its parameters
            return
        except TypeError:
            pass
        else:
            return
    raise UserTypeError(
        f"the reference of {launcher} is called with one argument: a mapping from the names of the "
        "call's arguments to their values",
        code="FLY-U478",
        value=function,
        allowed="a function that can be called with one positional argument",
        hint='write def reference(arguments): and take arguments["X"] for a parameter X',
    )
