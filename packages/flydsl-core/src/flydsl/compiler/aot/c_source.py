"""A C header and source that embed a compiled launcher and launch it through HIP.

The source needs a C compiler for the processor that the launcher was compiled on, and
``libamdhip64`` to link with; nothing of this project. It holds the code object and the host stub's
machine code as bytes, the structures of `flydsl.runtime.abi`, and one typed function.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from flydsl.compiler.aot.description import Description, Parameter
from flydsl.compiler.artifact import Artifact
from flydsl.errors import UserValueError
from flydsl.runtime.abi import ABI_VERSION, FlyHostContext, FlyLaunch

__all__ = ["export_to_c"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool catch class delete explicit export false friend "
    "mutable namespace new operator private protected public template this throw true try "
    "typename using virtual".split()
)
_TYPES = {
    "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t", "i": "int32_t",
    "I": "uint32_t", "q": "int64_t", "Q": "uint64_t", "f": "float", "d": "double",
    "e": "uint16_t",
}  # fmt: skip
"""By `struct` format; 16-bit and narrower floats are passed as their bits."""
_MACHINES = {"x86_64": "__x86_64__", "aarch64": "__aarch64__"}
_CTYPES = {
    ctypes.c_uint32: "uint32_t", ctypes.c_int32: "int32_t", ctypes.c_uint64: "uint64_t",
    ctypes.c_int64: "int64_t",
}  # fmt: skip


def export_to_c(
    directory: str | Path,
    base: str,
    prefix: str,
    description: Description,
    artifact: Artifact,
) -> tuple[Path, Path]:
    """Write ``base.h`` and ``base.c``.

    Args:
        directory: An existing folder.
        base: Name of the files without suffix.
        prefix: Beginning of every C name, and the name of the launching function.
        description: The launcher's parameters.
        artifact: What its compile produced.

    Returns:
        The paths of the header and the source.

    Raises:
        UserValueError: `prefix` is no C identifier, `base` is empty, the code is not for HIP, or
            the program prints or asserts.
        FileNotFoundError: The folder does not exist.
    """
    if not _IDENTIFIER.match(prefix) or prefix in _RESERVED:
        raise UserValueError(
            "the prefix of the C names is no identifier", code="FLY-U482", value=prefix
        )
    if not base:
        raise UserValueError("the name of the C files is empty", code="FLY-U482", value=base)
    if artifact.code.format != "hsaco":
        raise UserValueError(
            "only code for HIP can be exported to C", code="FLY-U482", value=artifact.code.format
        )
    if artifact.sites:
        raise UserValueError(
            "a program that prints or asserts cannot be exported to C",
            code="FLY-U482",
            hint="remove fx.printf and fx.device_assert, or compile them in by a Constexpr flag",
        )
    folder = Path(directory)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    header, source = folder / f"{base}.h", folder / f"{base}.c"
    header.write_text(_header(base, prefix, description))
    source.write_text(_source(base, prefix, description, artifact))
    return header, source


def _signature(prefix: str, description: Description) -> str:
    arguments = [_argument(prefix, p) for p in description.parameters if p.kind != "static"]
    if description.implicit_stream:
        arguments.append("void *stream")
    return f"int32_t {prefix}({', '.join(arguments) or 'void'})"


def _argument(prefix: str, parameter: Parameter) -> str:
    name = _c_name(parameter.name)
    if parameter.kind == "tensor":
        return f"{prefix}_{name}_t {name}"
    if parameter.kind in ("pointer", "stream"):
        return f"void *{name}"
    return f"{_TYPES[parameter.scalars[0].format]} {name}"


def _c_name(name: str) -> str:
    """Return a parameter's name as C and C++ take it."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"{plain}_" if plain in _RESERVED or plain == "a" else plain


def _header(base: str, prefix: str, description: Description) -> str:
    guard = f"{re.sub(r'[^A-Za-z0-9]', '_', base).upper()}_H"
    lines = [
        f"/* {description.launcher} for {description.target}, exported by FlyDSL. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    for parameter in description.parameters:
        if parameter.kind == "static":
            lines.append(f"/* {parameter.name} = {parameter.static} is compiled in. */")
        elif parameter.kind == "tensor":
            lines += _tensor_type(prefix, parameter)
    lines += [
        "",
        f"/* Load on a device. {prefix} does it for the current device when it is first called,",
        "   but that must not happen while a graph is captured. 0, a hipError_t, or -1 for a",
        "   device number above 15. */",
        f"int32_t {prefix}_load(int device);",
        "/* Release what is loaded on a device. */",
        f"int32_t {prefix}_unload(int device);",
        "/* Launch on the current device; streams are hipStream_t. 0 or a hipError_t. */",
        f"{_signature(prefix, description)};",
        "/* The kernels and their resources, as JSON. */",
        f"extern const char {prefix}_metadata[];",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _tensor_type(prefix: str, parameter: Parameter) -> list[str]:
    fields = [f"  void *data; /* {parameter.element}, aligned to {parameter.alignment} bytes */"]
    fields += [f"  {_TYPES[s.format]} {s.name};" for s in parameter.scalars[1:]]
    note = "strides count elements" if len(parameter.scalars) > 1 else "the layout is compiled in"
    return [
        f"/* {parameter.ir_type.replace('*/', '')}; {note}. */",
        "typedef struct {",
        *fields,
        f"}} {prefix}_{_c_name(parameter.name)}_t;",
    ]


def _structure(name: str, kind: type[ctypes.Structure]) -> list[str]:
    lines = ["typedef struct {"]
    fields: Sequence[Any] = kind._fields_
    for label, type_ in fields:
        count: int = getattr(type_, "_length_", 0)
        element = type_._type_ if count else type_
        lines.append(f"  {_CTYPES[element]} {label}{f'[{count}]' if count else ''};")
    return [*lines, f"}} {name};"]


def _bytes(data: bytes, separator: str, begin: str = "", end: str = "") -> Iterable[str]:
    for at in range(0, len(data), 24):
        row = ",".join(str(byte) for byte in data[at : at + 24])
        yield f"{begin}{row}{separator}{end}"


def _source(base: str, prefix: str, description: Description, artifact: Artifact) -> str:
    stub = artifact.stub
    kernels = ", ".join(f'"{name}"' for name in artifact.kernels)
    context, record = "fly_context", "fly_launch"
    metadata = json.dumps(_metadata(description, artifact))
    return "\n".join(
        [
            f"/* {description.launcher} for {description.target}, exported by FlyDSL. */",
            f'#include "{base}.h"',
            "#include <stddef.h>",
            f"#if !defined({_MACHINES[stub.machine]})",
            f'#error "the host code in this file is for {stub.machine}"',
            "#endif",
            "",
            *_structure(context, FlyHostContext),
            *_structure(record, FlyLaunch),
            *_arguments_structure(description),
            "",
            _HIP,
            "static const unsigned char code_object[] __attribute__((aligned(4096))) = {",
            *_bytes(artifact.code.data, ","),
            "};",
            f"static const char *const kernel_names[] = {{{kernels}}};",
            f"enum {{ KERNELS = {len(artifact.kernels)} }};",
            f"const char {prefix}_metadata[] = {json.dumps(metadata)};",
            "",
            "/* The host part of the launcher, compiled: computes the grid and packs arguments. */",
            f'__asm__(".text\\n.p2align 4\\n.globl {prefix}_host\\n.hidden {prefix}_host\\n"',
            f'        ".type {prefix}_host,%function\\n{prefix}_host:\\n"',
            *_bytes(stub.data, "", '        ".byte ', '\\n"'),
            "        );",
            f'extern const char {prefix}_host[] __attribute__((visibility("hidden")));',
            f"enum {{ ENTRY = {stub.entry}, ABI = {ABI_VERSION}, DEVICES = 16 }};",
            "",
            _RUNTIME.replace("PREFIX", prefix),
            _launcher(prefix, description),
        ]
    )


def _metadata(description: Description, artifact: Artifact) -> dict[str, object]:
    return {
        "launcher": description.launcher,
        "target": description.target,
        "sha256": artifact.code.sha256,
        "kernels": [
            {
                "name": info.name,
                "vgpr": info.vgpr,
                "agpr": info.agpr,
                "sgpr": info.sgpr,
                "lds": info.lds_static,
                "scratch": info.scratch,
                "spills": info.spills,
                "waves_per_simd": info.waves_per_simd,
            }
            for info in artifact.code.kernels
        ],
    }


def _arguments_structure(description: Description) -> list[str]:
    fields = [
        f"  {_TYPES[scalar.format]} {_c_name(parameter.name)}_{scalar.name};"
        for parameter in description.parameters
        for scalar in parameter.scalars
    ]
    if description.implicit_stream:
        fields.append("  uint64_t implicit_stream;")
    # A launcher without arguments still has a block to point to.
    return ["typedef struct {", *(fields or ["  char nothing;"]), "} fly_arguments;"]


def _launcher(prefix: str, description: Description) -> str:
    lines = [f"{_signature(prefix, description)} {{", "  fly_arguments a;"]
    for parameter in description.parameters:
        name = _c_name(parameter.name)
        for scalar in parameter.scalars:
            target = f"a.{name}_{scalar.name}"
            if parameter.kind == "tensor":
                value = f"{name}.{scalar.name}"
                value = f"(uint64_t)(uintptr_t){value}" if scalar.name == "data" else value
            elif parameter.kind in ("pointer", "stream"):
                value = f"(uint64_t)(uintptr_t){name}"
            else:
                value = name
            lines.append(f"  {target} = {value};")
    if description.implicit_stream:
        lines.append("  a.implicit_stream = (uint64_t)(uintptr_t)stream;")
    elif not any(parameter.scalars for parameter in description.parameters):
        lines.append("  a.nothing = 0;")
    return "\n".join([*lines, "  return fly_run(&a);", "}\n"])


_HIP = """\
int hipGetDevice(int *device);
int hipSetDevice(int device);
int hipModuleLoadData(void **module, const void *image);
int hipModuleUnload(void *module);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned lds, void *stream, void **parameters,
                          void **extra);
"""

_RUNTIME = """\
static struct {
  int state; /* 0 nothing, 1 being fly_loaded, 2 ready */
  void *module;
  uint64_t functions[KERNELS ? KERNELS : 1];
} fly_loaded[DEVICES];

static int32_t fly_launch_one(const fly_launch *l) {
  size_t size = (size_t)l->kernarg_size;
  void *extra[5] = {(void *)1, (void *)(uintptr_t)l->kernarg, (void *)2, &size, (void *)3};
  if (l->abi_version != ABI) return -1;
  return hipModuleLaunchKernel((void *)(uintptr_t)l->function, l->grid[0], l->grid[1], l->grid[2],
                               l->block[0], l->block[1], l->block[2], l->dynamic_lds,
                               (void *)(uintptr_t)l->stream, NULL, extra);
}

static int fly_load_here(int device) {
  void *function;
  int status = hipModuleLoadData(&fly_loaded[device].module, code_object);
  for (int i = 0; !status && i < KERNELS; i++) {
    status = hipModuleGetFunction(&function, fly_loaded[device].module, kernel_names[i]);
    fly_loaded[device].functions[i] = (uint64_t)(uintptr_t)function;
  }
  return status;
}

int32_t PREFIX_load(int device) {
  int expected = 0, before = 0, status;
  if (device < 0 || device >= DEVICES) return -1;
  while (!__atomic_compare_exchange_n(&fly_loaded[device].state, &expected, 1, 0, __ATOMIC_ACQUIRE,
                                      __ATOMIC_ACQUIRE)) {
    if (expected == 2) return 0;
    expected = 0; /* another thread is loading: wait for it */
  }
  status = hipGetDevice(&before);
  if (!status) status = hipSetDevice(device);
  if (!status) {
    status = fly_load_here(device);
    hipSetDevice(before);
  }
  __atomic_store_n(&fly_loaded[device].state, status ? 0 : 2, __ATOMIC_RELEASE);
  return status;
}

int32_t PREFIX_unload(int device) {
  if (device < 0 || device >= DEVICES) return -1;
  if (__atomic_load_n(&fly_loaded[device].state, __ATOMIC_ACQUIRE) != 2) return 0;
  __atomic_store_n(&fly_loaded[device].state, 0, __ATOMIC_RELEASE);
  return hipModuleUnload(fly_loaded[device].module);
}

static int32_t fly_run(const fly_arguments *arguments) {
  int device = 0, status = hipGetDevice(&device);
  fly_context context = {0};
  if (!status) status = PREFIX_load(device);
  if (status) return status;
  context.abi_version = ABI;
  context.device = device;
  context.launch = (uint64_t)(uintptr_t)fly_launch_one;
  context.functions = (uint64_t)(uintptr_t)fly_loaded[device].functions;
  return ((int32_t(*)(const fly_context *, const fly_arguments *))(uintptr_t)(PREFIX_host + ENTRY))(
      &context, arguments);
}
"""
