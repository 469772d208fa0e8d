"""A C header and source that embed a compiled launcher and launch it through HIP.

The source is C99 and C++ with GNU's attributes, builtins and assembly. It needs a compiler for the
processor that the launcher was compiled on, and ``libamdhip64`` to link with; nothing of this
project. It holds the code object and the host stub's machine code as bytes, the structures of
`flydsl.runtime.abi`, and one typed function.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flydsl.compiler.aot.description import Description, Parameter
from flydsl.compiler.artifact import Artifact
from flydsl.errors import UserOSError, UserValueError
from flydsl.runtime.abi import ABI_VERSION, FlyHostContext, FlyLaunch

__all__ = ["export_to_c"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FILE_NAME = re.compile(r'[^/\\"\x00-\x1f]+\Z')
_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool catch class delete explicit export false friend "
    "mutable namespace new operator private protected public template this throw true try "
    "typename using virtual alignas alignof and and_eq asm bitand bitor char16_t char32_t char8_t "
    "co_await co_return co_yield compl concept const_cast consteval constexpr constinit decltype "
    "dynamic_cast noexcept not not_eq nullptr or or_eq reinterpret_cast requires static_assert "
    "static_cast thread_local typeid typeof typeof_unqual wchar_t xor xor_eq".split()
)
_TAKEN = _RESERVED | frozenset(
    "main linux unix NULL EOF INFINITY NAN I stdin stdout stderr errno assert offsetof memset "
    "size_t ptrdiff_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t intptr_t "
    "uintptr_t KERNELS SLOTS ENTRY ABI DEVICES code_object kernel_names fly_context fly_launch "
    "fly_arguments fly_block fly_loaded fly_launch_one fly_load_here fly_run fly_launch_cluster "
    "fly_attribute fly_config".split()
)
"""Names that C, its compilers and the source itself use."""
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
        UserValueError: `prefix` is no free C identifier, `base` is no file name, the code is not
            for HIP, or the program prints or asserts.
        UserOSError: The folder does not exist (a `FileNotFoundError`), is none, or cannot be
            written.
    """
    if not _IDENTIFIER.match(prefix) or prefix in _TAKEN or f" {prefix}(" in _HIP:
        raise UserValueError(
            "the prefix of the C names is no identifier, or not a free one",
            code="FLY-U482",
            value=prefix,
            allowed="an identifier of C and C++ that they, HIP and the exported source do not use",
        )
    if not _FILE_NAME.match(base) or base in (".", ".."):
        raise UserValueError(
            "the name of the C files is empty or no file name",
            code="FLY-U482",
            value=base,
            allowed="a name without suffix, folder, quotes, backslashes and control characters",
        )
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
    header, source = folder / f"{base}.h", folder / f"{base}.c"
    names = _c_names(prefix, description)
    texts = (_header(prefix, description, names), _source(base, prefix, description, artifact))
    try:
        os.scandir(folder).close()
        for file, text in zip((header, source), texts, strict=True):
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        there = folder.is_dir()
        raise UserOSError.of(
            error,
            "the C files cannot be written" if there else f"there is no folder {folder}",
            error.filename if there and error.filename else folder,
            code="FLY-U484",
            allowed="an existing folder that can be written",
        ) from error
    return header, source


def _c_names(prefix: str, description: Description) -> dict[str, str]:
    """Return what each parameter is called in C and C++."""
    used = {prefix, "stream"} if description.implicit_stream else {prefix}
    found: dict[str, str] = {}
    for parameter in description.parameters:
        name = re.sub("[^A-Za-z0-9_]", lambda match: f"u{ord(match[0]):x}", parameter.name)
        while name in used or name in _TAKEN:
            name += "_"
        used.add(name)
        found[parameter.name] = name
    return found


def _comment(text: str) -> str:
    """Return text that can stand in a comment, whatever it contains."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return " ".join(plain.replace("*/", "* /").replace("/*", "/ *").split())


def _signature(prefix: str, description: Description, names: Mapping[str, str]) -> str:
    arguments = [
        _argument(prefix, names[p.name], p) for p in description.parameters if p.kind != "static"
    ]
    if description.implicit_stream:
        arguments.append("void *stream")
    return f"int32_t {prefix}({', '.join(arguments) or 'void'})"


def _argument(prefix: str, name: str, parameter: Parameter) -> str:
    if parameter.kind == "tensor":
        return f"{prefix}_{name}_t {name}"
    if parameter.kind in ("pointer", "stream"):
        return f"void *{name}"
    return f"{_TYPES[parameter.scalars[0].format]} {name}"


def _header(prefix: str, description: Description, names: Mapping[str, str]) -> str:
    guard = f"FLYDSL_{prefix}_H"
    lines = [
        f"/* {_comment(description.launcher)} for {description.target}, exported by FlyDSL. */",
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
            known = _comment(f"{parameter.name} = {parameter.static}")
            lines.append(f"/* {known} is compiled in. */")
        elif parameter.kind == "tensor":
            lines += _tensor_type(prefix, names[parameter.name], parameter)
    lines += [
        "",
        f"/* Load on a device. {prefix} does it for the current device when it is first called,",
        "   but that must not happen while a graph is captured. 0, a hipError_t, or -1 for a",
        "   device number above 15. */",
        f"int32_t {prefix}_load(int device);",
        "/* Release what is loaded on a device, when no launch is under way there. */",
        f"int32_t {prefix}_unload(int device);",
        "/* Launch on the current device; streams are hipStream_t. 0, a hipError_t",
        "   (hipErrorInvalidValue for an address that is not aligned as it must be), -1 as above,",
        "   or less for a geometry that cannot be launched. */",
        f"{_signature(prefix, description, names)};",
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


def _tensor_type(prefix: str, name: str, parameter: Parameter) -> list[str]:
    fields = [f"  void *data; /* {parameter.element}, aligned to {parameter.alignment} bytes */"]
    fields += [f"  {_TYPES[s.format]} {s.name};" for s in parameter.scalars[1:]]
    note = "strides count elements" if len(parameter.scalars) > 1 else "the layout is compiled in"
    return [
        f"/* {_comment(parameter.ir_type)}; {note}. */",
        "typedef struct {",
        *fields,
        f"}} {prefix}_{name}_t;",
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
    names, count = _c_names(prefix, description), len(artifact.kernels)
    kernels = ", ".join(f'"{name}"' for name in artifact.kernels) or "NULL"
    context, record = "fly_context", "fly_launch"
    metadata = json.dumps(_metadata(description, artifact))
    return "\n".join(
        [
            f"/* {_comment(description.launcher)} for {description.target}, exported by FlyDSL. */",
            f'#include "{base}.h"',
            "#include <stddef.h>",
            "#include <string.h>",
            f"#if !defined({_MACHINES[stub.machine]})",
            f'#error "the host code in this file is for {stub.machine}"',
            "#endif",
            "",
            *_structure(context, FlyHostContext),
            *_structure(record, FlyLaunch),
            *_arguments_structure(description, names),
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            _HIP,
            f'extern const char {prefix}_host[] __attribute__((visibility("hidden")));',
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "static const unsigned char code_object[] __attribute__((aligned(4096))) = {",
            *_bytes(artifact.code.data, ","),
            "};",
            f"static const char *const kernel_names[] = {{{kernels}}};",
            f"enum {{ KERNELS = {count}, SLOTS = {max(count, 1)} }};",
            f"const char {prefix}_metadata[] = {json.dumps(metadata)};",
            "",
            "/* The host part of the launcher, compiled: computes the grid and packs arguments. */",
            f'__asm__(".text\\n.p2align 12\\n.globl {prefix}_host\\n.hidden {prefix}_host\\n"',
            f'        ".type {prefix}_host,%function\\n{prefix}_host:\\n"',
            *_bytes(stub.data, "", '        ".byte ', '\\n"'),
            "        );",
            f"enum {{ ENTRY = {stub.entry}, ABI = {ABI_VERSION}, DEVICES = 16 }};",
            "",
            _RUNTIME.replace("PREFIX", prefix),
            _launcher(prefix, description, names),
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


def _arguments_structure(description: Description, names: Mapping[str, str]) -> list[str]:
    fields = [
        f"  {_TYPES[scalar.format]} {names[parameter.name]}_{scalar.name};"
        for parameter in description.parameters
        for scalar in parameter.scalars
    ]
    if description.implicit_stream:
        fields.append("  uint64_t implicit_stream;")
    # A launcher without arguments still has a block to point to.
    return ["typedef struct {", *(fields or ["  char nothing;"]), "} fly_arguments;"]


def _launcher(prefix: str, description: Description, names: Mapping[str, str]) -> str:
    lines = [f"{_signature(prefix, description, names)} {{", "  fly_arguments fly_block;"]
    for parameter in description.parameters:
        name = names[parameter.name]
        if parameter.kind in ("tensor", "pointer") and parameter.alignment > 1:
            data = f"{name}.data" if parameter.kind == "tensor" else name
            lines.append(f"  if ((uintptr_t){data} % {parameter.alignment}) return 1;")
        for scalar in parameter.scalars:
            target = f"fly_block.{name}_{scalar.name}"
            if parameter.kind == "tensor":
                value = f"{name}.{scalar.name}"
                value = f"(uint64_t)(uintptr_t){value}" if scalar.name == "data" else value
            elif parameter.kind in ("pointer", "stream"):
                value = f"(uint64_t)(uintptr_t){name}"
            else:
                value = name
            lines.append(f"  {target} = {value};")
    if description.implicit_stream:
        lines.append("  fly_block.implicit_stream = (uint64_t)(uintptr_t)stream;")
    elif not any(parameter.scalars for parameter in description.parameters):
        lines.append("  fly_block.nothing = 0;")
    return "\n".join([*lines, "  return fly_run(&fly_block);", "}\n"])


_HIP = """\
int hipGetDevice(int *device);
int hipSetDevice(int device);
int hipModuleLoadData(void **module, const void *image);
int hipModuleUnload(void *module);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned lds, void *stream, void **parameters,
                          void **extra);
/* Since ROCm 7, for clusters of workgroups. */
typedef struct { unsigned id, padding, value[16]; } fly_attribute;
typedef struct {
  unsigned grid[3], block[3], lds;
  void *stream;
  fly_attribute *attributes;
  unsigned count;
} fly_config;
int hipDrvLaunchKernelEx(const fly_config *config, void *function, void **parameters, void **extra)
    __attribute__((weak));
"""

_RUNTIME = """\
static struct {
  int state; /* 0 nothing, 1 in the hands of a thread, 2 ready */
  void *module;
  uint64_t functions[SLOTS];
} fly_loaded[DEVICES];

static int32_t fly_launch_cluster(const fly_launch *l, void **extra) {
  fly_attribute attribute;
  fly_config config;
  memset(&attribute, 0, sizeof attribute);
  memset(&config, 0, sizeof config);
  attribute.id = 4; /* hipLaunchAttributeClusterDimension */
  memcpy(attribute.value, l->cluster, sizeof l->cluster);
  memcpy(config.grid, l->grid, sizeof l->grid);
  memcpy(config.block, l->block, sizeof l->block);
  config.lds = l->dynamic_lds;
  config.stream = (void *)(uintptr_t)l->stream;
  config.attributes = &attribute;
  config.count = 1;
  if (!hipDrvLaunchKernelEx) return 801; /* hipErrorNotSupported */
  return hipDrvLaunchKernelEx(&config, (void *)(uintptr_t)l->function, NULL, extra);
}

static int32_t fly_launch_one(const fly_launch *l) {
  size_t size = (size_t)l->kernarg_size;
  void *extra[5] = {(void *)1, (void *)(uintptr_t)l->kernarg, (void *)2, &size, (void *)3};
  if (l->abi_version != ABI) return -1;
  if (l->cluster[0] > 1 || l->cluster[1] > 1 || l->cluster[2] > 1)
    return fly_launch_cluster(l, extra);
  return hipModuleLaunchKernel((void *)(uintptr_t)l->function, l->grid[0], l->grid[1], l->grid[2],
                               l->block[0], l->block[1], l->block[2], l->dynamic_lds,
                               (void *)(uintptr_t)l->stream, NULL, extra);
}

static int fly_load_here(int device) {
  void *function = NULL;
  int status;
  fly_loaded[device].module = NULL;
  status = hipModuleLoadData(&fly_loaded[device].module, code_object);
  for (int i = 0; !status && i < KERNELS; i++) {
    status = hipModuleGetFunction(&function, fly_loaded[device].module, kernel_names[i]);
    fly_loaded[device].functions[i] = (uint64_t)(uintptr_t)function;
  }
  if (status && fly_loaded[device].module) hipModuleUnload(fly_loaded[device].module);
  return status;
}

int32_t PREFIX_load(int device) {
  int expected = 0, before = 0, status, loaded = 0, back = 0;
  if (device < 0 || device >= DEVICES) return -1;
  while (!__atomic_compare_exchange_n(&fly_loaded[device].state, &expected, 1, 0, __ATOMIC_ACQUIRE,
                                      __ATOMIC_ACQUIRE)) {
    if (expected == 2) return 0;
    expected = 0; /* another thread is loading: wait for it */
  }
  status = hipGetDevice(&before);
  if (!status && before != device) status = hipSetDevice(device);
  if (!status) {
    status = fly_load_here(device);
    loaded = !status;
    if (before != device) back = hipSetDevice(before);
  }
  __atomic_store_n(&fly_loaded[device].state, loaded ? 2 : 0, __ATOMIC_RELEASE);
  return status ? status : back;
}

int32_t PREFIX_unload(int device) {
  int expected = 2, before = 0, status, loaded = 1, back = 0;
  if (device < 0 || device >= DEVICES) return -1;
  while (!__atomic_compare_exchange_n(&fly_loaded[device].state, &expected, 1, 0, __ATOMIC_ACQUIRE,
                                      __ATOMIC_ACQUIRE)) {
    if (expected == 0) return 0;
    expected = 2;
  }
  status = hipGetDevice(&before);
  if (!status && before != device) status = hipSetDevice(device);
  if (!status) {
    status = hipModuleUnload(fly_loaded[device].module);
    loaded = !!status;
    if (before != device) back = hipSetDevice(before);
  }
  __atomic_store_n(&fly_loaded[device].state, loaded ? 2 : 0, __ATOMIC_RELEASE);
  return status ? status : back;
}

static int32_t fly_run(const fly_arguments *arguments) {
  int device = 0, status = hipGetDevice(&device);
  fly_context context;
  memset(&context, 0, sizeof context);
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
