"""The exception hierarchy: every failure a user can see is one of these.

`UserError` (your code), `TargetError` (this architecture cannot), `ConfigError` (this kernel
configuration cannot) and `CompilerBug` (ours) all derive from `FlyDSLError`. Each carries a stable
code, the user's source location, the offending value, what is allowed and what to do next; `str()`
renders them together. Modules that need a builtin exception type as well (so that
`except TypeError` works as a Python user expects) raise `UserTypeError`, `UserValueError`, ….
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass

__all__ = [
    "CompilerBug",
    "ConfigError",
    "FlyDSLError",
    "SourceLocation",
    "TargetError",
    "UserAttributeError",
    "UserError",
    "UserFileNotFoundError",
    "UserIndexError",
    "UserIsADirectoryError",
    "UserNotADirectoryError",
    "UserOSError",
    "UserPermissionError",
    "UserRuntimeError",
    "UserTypeError",
    "UserValueError",
    "UserZeroDivisionError",
]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's source.

    Attributes:
        file: Path as Python reports it in a traceback.
        line: One-based line number.
        column: Zero-based first column of the expression, or -1 when unknown.
        end_column: Zero-based column after the expression, or -1 when unknown.
    """

    file: str
    line: int
    column: int = -1
    end_column: int = -1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def snippet(self) -> str:
        """Return the source line with a caret under the expression; empty if it is not readable."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return ""
        gutter = f"{self.line:>5} | "
        out = gutter + text
        if self.column >= 0:
            width = max(1, self.end_column - self.column) if self.end_column > self.column else 1
            out += "\n" + " " * (len(gutter) - 2) + "| " + " " * self.column + "^" * width
        return out


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"


_UNSET = _Unset()


class FlyDSLError(Exception):
    """Base of all errors raised on purpose by FlyDSL.

    Args:
        message: What happened, in one sentence.
        code: Stable identifier such as ``"FLY-U501"``; the catalogue is `flydsl.diagnostics.codes`.
        value: The offending value, shown with `repr` when given.
        allowed: What would have been accepted, as text.
        hint: What to do next, as text.
        location: The user's line. `with_location` fills it in later if the raiser cannot know it.
    """

    default_code = "FLY-E000"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        value: object = _UNSET,
        allowed: str = "",
        hint: str = "",
        location: SourceLocation | None = None,
    ) -> None:
        # As the base class would: its constructor is nothing that PyTorch's tracer follows, and
        # would hide the message of an error while it traces.
        self.args = (message,)
        self.message = message
        self.code = code or self.default_code
        self.value = value
        self.allowed = allowed
        self.hint = hint
        self.location = location

    @property
    def has_value(self) -> bool:
        """Whether an offending value was recorded."""
        return not isinstance(self.value, _Unset)

    def with_location(self, location: SourceLocation | None) -> FlyDSLError:
        """Record the user's line unless one is known already, and return self."""
        if self.location is None:
            self.location = location
        return self

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        if self.location is not None:
            lines.append(f"  at {self.location}")
            snippet = self.location.snippet()
            if snippet:
                lines.extend("  " + part for part in snippet.splitlines())
        if self.has_value:
            shown = repr(self.value)
            lines.append(f"  value: {shown if len(shown) <= 300 else shown[:297] + '...'}")
        if self.allowed:
            lines.append(f"  allowed: {self.allowed}")
        if self.hint:
            lines.append(f"  help: {self.hint}")
        return "\n".join(lines)


class UserError(FlyDSLError):
    """The program handed to FlyDSL is wrong."""

    default_code = "FLY-U000"


class UserTypeError(UserError, TypeError):
    """A `UserError` that is also a `TypeError`."""


class UserValueError(UserError, ValueError):
    """A `UserError` that is also a `ValueError`."""


class UserIndexError(UserError, IndexError):
    """A `UserError` that is also an `IndexError`."""


class UserAttributeError(UserError, AttributeError):
    """A `UserError` that is also an `AttributeError`."""


class UserZeroDivisionError(UserError, ZeroDivisionError):
    """A `UserError` that is also a `ZeroDivisionError`."""


class DeviceAssertionError(UserError, AssertionError):
    """A `fx.device_assert` of a kernel failed."""


class UserRuntimeError(UserError, RuntimeError):
    """A `UserError` that is also a `RuntimeError`."""


class UserOSError(UserError, OSError):
    """A `UserError` about a file that is also an `OSError`; `of` makes one of the right kind."""

    @classmethod
    def of(
        cls,
        error: OSError,
        what: str,
        path: object,
        *,
        code: str,
        allowed: str = "",
        hint: str = "",
    ) -> UserOSError:
        """Return the error to raise from one of the operating system.

        Args:
            error: What happened; its number, file and kind are taken over, so that
                ``except FileNotFoundError`` works as for `open`.
            what: What cannot be done.
            path: The path that was given.
            code: Stable identifier.
            allowed: See `FlyDSLError`.
            hint: See `FlyDSLError`.
        """
        kind = next((kind for kind in _OF_FILES if isinstance(error, kind.__bases__[1])), cls)
        why = error.strerror or str(error)
        made = kind(f"{what}: {why}", code=code, value=str(path), allowed=allowed, hint=hint)
        made.errno, made.strerror, made.filename = error.errno, why, error.filename or str(path)
        return made


class UserFileNotFoundError(UserOSError, FileNotFoundError):
    """A `UserError` that is also a `FileNotFoundError`."""


class UserIsADirectoryError(UserOSError, IsADirectoryError):
    """A `UserError` that is also an `IsADirectoryError`."""


class UserNotADirectoryError(UserOSError, NotADirectoryError):
    """A `UserError` that is also a `NotADirectoryError`."""


class UserPermissionError(UserOSError, PermissionError):
    """A `UserError` that is also a `PermissionError`."""


_OF_FILES = (
    UserFileNotFoundError,
    UserIsADirectoryError,
    UserNotADirectoryError,
    UserPermissionError,
)


class TargetError(FlyDSLError):
    """The chosen architecture, device or installed toolchain cannot do what was asked."""

    default_code = "FLY-T000"


class ConfigError(FlyDSLError):
    """A kernel configuration breaks a rule of that kernel."""

    default_code = "FLY-C000"


class CompilerBug(FlyDSLError):
    """An internal invariant failed; never the user's fault."""

    default_code = "FLY-B000"

    def __str__(self) -> str:
        return super().__str__() + (
            "\n  This is a defect in FlyDSL. Please report it with the output of `flydsl doctor`"
            "\n  and, if you can, the files that FLYDSL_DUMP_IR=1 FLYDSL_DUMP_DIR=dump writes."
        )
