"""Compiled launchers outside the process and the language that made them.

* `description`: the parameters of a compiled launcher as plain values.
* `archive`: one file that a later process loads and calls without the program's source.
* `c_source`: a C header and source that embed the code and launch it through HIP.

Another export reads a `Description` and an `Artifact`, and gets a method on `CompiledFunction`.
"""

from flydsl.compiler.aot.archive import LoadedFunction, load, save
from flydsl.compiler.aot.c_source import export_to_c
from flydsl.compiler.aot.description import Description, Parameter, Scalar, describe_call

__all__ = [
    "Description",
    "LoadedFunction",
    "Parameter",
    "Scalar",
    "describe_call",
    "export_to_c",
    "load",
    "save",
]
