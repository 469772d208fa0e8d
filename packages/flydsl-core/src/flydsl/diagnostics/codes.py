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
        "FLY-U401": "a tensor's data type or byte order cannot be passed to a kernel",
        "FLY-U402": "a tensor's memory cannot be used: address, strides or device",
        "FLY-U403": "a tensor without axes is passed as a tensor argument",
        "FLY-U404": "an argument does not fit the annotation of its parameter",
        "FLY-U405": "a numeric type has no representation at the launcher boundary",
        "FLY-U406": "a number is outside the range of its parameter",
        "FLY-U407": "a stream parameter is given something that is no stream",
        "FLY-U408": "a compile-time value cannot be hashed",
        "FLY-U409": "a value of this type cannot be an argument",
        "FLY-U410": "a mark on a tensor argument names no axis or a wrong divisibility",
        "FLY-U411": "an assumed alignment is no power of two, or the address does not have it",
        "FLY-U412": "a raw pointer argument has no usable element type or address",
        "FLY-U420": "a compiled function is called with arguments of other kinds",
        "FLY-U421": "compile is given no launcher, or hints that are no mapping",
        "FLY-U450": "the device setting is malformed",
        "FLY-U451": "the tensors of one call are on different devices",
        "FLY-T430": "launchers cannot be compiled for this host",
        "FLY-T431": "host code for another processor cannot be mapped",
        "FLY-T432": "the operating system refuses executable memory",
        "FLY-T450": "a runtime has no device with that index",
        "FLY-T451": "no installed runtime serves the tensors, the setting or the code",
        "FLY-B430": "the host code of a launcher is not self-contained",
        "FLY-B431": "the launcher cannot be translated to LLVM IR",
        "FLY-B432": "a pipeline names a pass that no plugin provides",
        "FLY-B440": "an argument specification is no Python expression",
        "FLY-B441": "the code made for a call does not accept its arguments",
        "FLY-B442": "a plugin answered the argument hook with something else",
        "FLY-B443": "a launch failed without a reason",
        "FLY-B450": "a runtime plugin does not implement the runtime interface",
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
