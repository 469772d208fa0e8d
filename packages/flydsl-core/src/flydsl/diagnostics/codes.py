"""The catalogue of error codes: stable identifiers with their meaning.

``U`` codes are the user's program, ``T`` the target or toolchain, ``C`` a kernel configuration,
``B`` a defect of ours. Hundreds: 1 layout, 2 expressions and tracing, 3 IR and passes, 4 code
generation, driver and launch, 5 settings, plugins and targets. Plugins keep their own catalogues
and use their own hundreds (6 rocdl, 7 emu).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES", "explain"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-E000": "an error of no particular kind",
        "FLY-U000": "an error in the user's program of no particular kind",
        "FLY-T000": "the target cannot do what was asked, for no particular reason",
        "FLY-C000": "a kernel configuration breaks a rule of no particular kind",
        "FLY-B000": "an internal invariant failed",
        "FLY-U490": "an LLVM option is not on the list of options that may be set",
        "FLY-U491": "an LLVM option has a value of the wrong type",
        "FLY-T420": "no Python interpreter to run the codegen worker with",
        "FLY-T421": "llvmlite is missing or cannot be imported",
        "FLY-T422": "the installed llvmlite has no back end for the target triple",
        "FLY-T423": "LLVM does not know the processor or a feature",
        "FLY-T424": "the LLVM back end failed or ended the codegen worker",
        "FLY-B420": "LLVM rejects the generated IR",
        "FLY-U501": "an environment variable has a value that cannot be parsed or is out of range",
        "FLY-U502": "a setting of that name does not exist",
        "FLY-U503": "a compile option has the wrong type or is out of range",
        "FLY-U504": "a compile hint of that name does not exist",
        "FLY-U505": "a floating-point flag does not exist",
        "FLY-U506": "waves_per_eu is malformed or out of range",
        "FLY-U507": "llvm_options is not a mapping of names to bool, int or str",
        "FLY-U508": "flydsl.expr has no such attribute or namespace",
        "FLY-T501": "a plugin implements a hook that does not exist",
        "FLY-T502": "a plugin cannot be registered",
        "FLY-T503": "a plugin implements a hook with the wrong arguments or in the wrong form",
        "FLY-T504": "two plugins claim the same name",
        "FLY-T505": "a plugin announces something in a form that cannot be used",
        "FLY-U510": "a target argument is neither text, a TargetSpec nor a Target",
        "FLY-U520": "a pass option on the command line has no value",
        "FLY-U521": "no pass of that name is registered",
        "FLY-U522": "command-line options exclude one another",
        "FLY-U523": "a file cannot be read",
        "FLY-T510": "more threads per block than the target allows",
        "FLY-T511": "more blocks along an axis than the target allows",
        "FLY-T512": "more shared memory per block than the target has",
        "FLY-T513": "no installed plugin knows the target",
        "FLY-T514": "no target is named and no device was found",
        "FLY-T515": "a launch is asked for on a device of another architecture",
        "FLY-B501": "a setting is declared twice with different types or defaults",
        "FLY-B502": "an announced dotted name cannot be loaded",
        "FLY-B510": "a plugin answered the pipeline hook with something else",
        "FLY-B511": "a plugin answered the emit hook with something else",
        "FLY-B512": "a plugin answered a target hook with something else",
    }
)


def explain(code: str) -> str:
    """Return the one-line meaning of `code`.

    Raises:
        KeyError: The core has no such code.
    """
    return CODES[code]
