"""`CompileOptions`: everything besides the source that one compile depends on, read once.

The driver calls `compile_options` at the start of a compile and hands the frozen result to every
pass and hook; nothing downstream looks at the environment for these. `CompileOptions.cache_key`
covers exactly the fields that change the code produced.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from flydsl.config import core
from flydsl.errors import UserTypeError, UserValueError

__all__ = ["FASTMATH_FLAGS", "CompileOptions", "compile_options"]

FASTMATH_FLAGS = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")
"""Individual floating-point relaxations, in the order MLIR prints them."""

_NOT_IN_KEY = frozenset({"want_isa", "dump_ir", "dump_dir", "verify", "compile_only"})
_HINTS = (
    "waves_per_eu",
    "fast_fp_math",
    "unsafe_fp_math",
    "fastmath",
    "flush_denormals",
    "llvm_options",
)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of one compile; validated and normalised on construction.

    Attributes:
        opt_level: LLVM optimisation level, 0 to 3.
        dump_ir: Write every stage to `dump_dir`.
        dump_dir: Directory for dumps.
        verify: Run MLIR's and FlyDSL's verifiers after every pass.
        debug_info: Emit line tables.
        fastmath: Ambient floating-point flags: ``""``, ``"fast"``, or names from `FASTMATH_FLAGS`
            joined by commas. Also accepts a bool, a sequence of names or an `enum.Flag`.
        unsafe_fp_math: Let the target use its unsafe floating-point approximations.
        flush_denormals: Let f32 operations take and give zero instead of denormal numbers.
        waves_per_eu: Requested waves per execution unit: ``()`` for no request, ``(low,)`` or
            ``(low, high)``. Also accepts an int (0: no request), ``"low,high"`` and None.
        llvm_options: LLVM command-line options as sorted ``(name, value)`` pairs, values bool, int
            or str; also accepts a mapping. The codegen worker checks names against its allow-list.
        compile_only: Compile without launching.
        want_isa: Keep the assembly text in the code object.
    """

    opt_level: int = 3
    dump_ir: bool = False
    dump_dir: Path = Path("dump")
    verify: bool = False
    debug_info: bool = False
    fastmath: str = ""
    unsafe_fp_math: bool = False
    flush_denormals: bool = False
    waves_per_eu: tuple[int, ...] = ()
    llvm_options: tuple[tuple[str, bool | int | str], ...] = ()
    compile_only: bool = False
    want_isa: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.type == "bool" and not isinstance(getattr(self, item.name), bool):
                raise UserTypeError(
                    f"compile option {item.name} must be a bool",
                    code="FLY-U503",
                    value=getattr(self, item.name),
                    allowed="True or False",
                )
        if not _is_int(self.opt_level) or not 0 <= self.opt_level <= 3:
            raise UserValueError(
                "compile option opt_level is out of range",
                code="FLY-U503",
                value=self.opt_level,
                allowed="an int from 0 to 3",
            )
        object.__setattr__(self, "dump_dir", Path(self.dump_dir))
        object.__setattr__(self, "fastmath", _fastmath(self.fastmath))
        object.__setattr__(self, "waves_per_eu", _waves_per_eu(self.waves_per_eu))
        object.__setattr__(self, "llvm_options", _llvm_options(self.llvm_options))

    def cache_key(self) -> str:
        """Return text that is equal exactly when the options ask for the same code.

        Stable over processes and versions of Python. Dumping, verifying and `compile_only` do not
        take part.
        """
        parts = (f.name for f in fields(self) if f.name not in _NOT_IN_KEY)
        return ";".join(f"{name}={getattr(self, name)!r}" for name in parts)

    def with_hints(self, hints: Mapping[str, object]) -> CompileOptions:
        """Return these options overlaid with compile hints; a value of None changes nothing.

        Keys: ``waves_per_eu``, ``fastmath``, ``unsafe_fp_math``, ``flush_denormals``,
        ``llvm_options`` (which extends the options set already) and ``fast_fp_math`` (short for
        ``fastmath="fast"`` unless ``fastmath`` is given too).

        Raises:
            UserValueError: Unknown hint, or a value out of range.
            UserTypeError: A value of the wrong type.
        """
        given = {name: value for name, value in hints.items() if value is not None}
        for name in given:
            if name not in _HINTS:
                raise _unknown_hint(name)
        if given.pop("fast_fp_math", False):
            given.setdefault("fastmath", "fast")
        if "llvm_options" in given:
            merged = dict(self.llvm_options) | dict(_llvm_options(given["llvm_options"]))
            given["llvm_options"] = tuple(merged.items())
        return replace(self, **given) if given else self  # type: ignore[arg-type]


def compile_options(hints: Mapping[str, object] | None = None) -> CompileOptions:
    """Read the settings of one compile, overlaid with `hints` (see `CompileOptions.with_hints`).

    Raises:
        UserError: An environment variable or a hint has an unusable value; names it.
    """
    options = CompileOptions(
        opt_level=core.OPT_LEVEL.get(),
        dump_ir=core.DUMP_IR.get(),
        dump_dir=core.DUMP_DIR.get(),
        verify=core.VERIFY.get(),
        debug_info=core.DEBUG_INFO.get(),
        compile_only=core.COMPILE_ONLY.get(),
    )
    return options.with_hints(hints) if hints else options


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unknown_hint(name: str) -> UserValueError:
    if name == "maxnreg":
        hint = "registers per thread follow from waves_per_eu and the block size on this compiler"
    else:
        hint = "compile hints are checked so that a misspelt one cannot be ignored silently"
    return UserValueError(
        f"unknown compile hint {name!r}",
        code="FLY-U504",
        allowed=", ".join(_HINTS),
        hint=hint,
    )


def _fastmath(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "fast" if value else ""
    if isinstance(value, enum.Flag):
        words = [str(member.name).lower() for member in value]
    elif isinstance(value, str):
        words = [word.strip() for word in value.lower().split(",") if word.strip()]
    elif isinstance(value, Iterable):
        words = [str(word).lower() for word in value]
    else:
        raise UserTypeError(
            "fastmath has a type that cannot be used",
            code="FLY-U505",
            value=value,
            allowed="a bool, text such as 'nnan,contract', or a sequence of flag names",
        )
    flags = {word for word in words if word != "none"}
    unknown = sorted(flags - {*FASTMATH_FLAGS, "fast"})
    if unknown:
        raise UserValueError(
            "unknown fastmath flag",
            code="FLY-U505",
            value=", ".join(unknown),
            allowed="fast, none, " + ", ".join(FASTMATH_FLAGS),
        )
    if "fast" in flags or flags == set(FASTMATH_FLAGS):
        return "fast"
    return ",".join(flag for flag in FASTMATH_FLAGS if flag in flags)


def _waves_per_eu(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    bounds: list[object]
    if isinstance(value, str):
        try:
            bounds = [int(part) for part in value.split(",")] if value.strip() else []
        except ValueError:
            bounds = [value]
    elif isinstance(value, (tuple, list)):
        bounds = list(value)
    else:
        bounds = [value]
    numbers = [bound for bound in bounds if isinstance(bound, int) and not isinstance(bound, bool)]
    allowed = "an int, (low, high) or 'low,high' with 0 <= low <= high"
    if len(numbers) != len(bounds):
        error = UserValueError if isinstance(value, str) else UserTypeError
        raise error(
            "waves_per_eu is not a wave count", code="FLY-U506", value=value, allowed=allowed
        )
    if len(numbers) > 2 or any(n < 0 for n in numbers) or numbers != sorted(numbers):
        raise UserValueError(
            "waves_per_eu is out of range", code="FLY-U506", value=value, allowed=allowed
        )
    return () if numbers in ([0], [0, 0]) else tuple(numbers)


def _llvm_options(value: object) -> tuple[tuple[str, bool | int | str], ...]:
    try:
        pairs = dict(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise UserTypeError(
            "llvm_options must map option names to values",
            code="FLY-U507",
            value=value,
            allowed="a dict of str to bool, int or str",
        ) from None
    for name, option in pairs.items():
        if not isinstance(name, str) or not isinstance(option, (bool, int, str)):
            raise UserTypeError(
                "llvm_options has an entry that cannot be passed to LLVM",
                code="FLY-U507",
                value={name: option},
                allowed="a str name with a bool, int or str value",
            )
    return tuple(sorted(pairs.items()))
