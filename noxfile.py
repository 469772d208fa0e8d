"""Automation of the workspace: ``nox -l`` lists the sessions.

Every session makes its own environment, except under ``nox --no-venv``: then the environment that
runs nox must hold what the session needs. The Makefile uses that to check everything in one
``.venv``, because an environment costs about 650 MB.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox
from nox.command import CommandFailed
from nox.virtualenv import PassthroughEnv

ROOT = Path(__file__).parent
PACKAGES = sorted(path.name for path in (ROOT / "packages").iterdir() if path.is_dir())
SOURCES = [f"packages/{package}/src" for package in PACKAGES]
TARGETS = ("gfx942", "gfx950")
# What `nox -s peer` compares with.
PEER = "flydsl==0.5.0"
# Proves an installation; runs where only installed distributions can be imported.
PROOF = ROOT / "tools" / "compile_vector_add.py"

WORKSPACE = ("tools/tests", "tests/examples", "tests/kernels", "tests/peer")

nox.options.sessions = ["lint", "types", "layers", "tests", "workspace", "docs"]
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True
nox.needs_version = ">=2025.5"


def _install(session: nox.Session, *groups: str, packages: bool = True) -> None:
    """Install the workspace's distributions, editable, and the dependency groups named."""
    if isinstance(session.virtualenv, PassthroughEnv):
        return
    session.install("--upgrade", "pip>=25.1")
    arguments = [f"--group={group}" for group in groups]
    if packages:
        arguments += [part for package in PACKAGES for part in ("-e", f"packages/{package}")]
    session.install("-c", "constraints/torch-cpu.txt", *arguments)


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def tests(session: nox.Session, package: str) -> None:
    """Run one package's tests; arguments after ``--`` go to pytest."""
    _install(session, "test", "torch")
    session.run("pytest", "-n", "auto", f"packages/{package}/tests", *session.posargs)


@nox.session
def workspace(session: nox.Session) -> None:
    """Run the tests of the workspace itself: its tools and examples, and of all families."""
    _install(session, "test")
    session.run("pytest", "-n", "auto", *WORKSPACE, *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """Run what takes too long for every change."""
    _install(session, "test", "torch")
    folders = [f"packages/{package}/tests" for package in PACKAGES]
    session.run("pytest", "-n", "auto", "-m", "nightly", *folders, "tools/tests")
    session.run("pytest", "-n", "auto", "--all-forms", "packages/flydsl-emu/tests/unit/semantics")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting, budgets, declared dependencies and changelog fragments."""
    _install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "tools/check_budgets.py")
    for package in PACKAGES:
        with session.chdir(ROOT / "packages" / package):
            session.run("deptry", "src")
            session.run("towncrier", "build", "--draft", silent=True)


@nox.session
def types(session: nox.Session) -> None:
    """Check types: strictly in the sources, less so in tests and scripts."""
    _install(session, "types")
    session.run("mypy", "--exclude=tools/tests", *SOURCES, "tools", "noxfile.py", "conftest.py")
    # Test modules of different packages share names, so each folder is a base of its own.
    folders = [f"packages/{package}/tests" for package in PACKAGES]
    for folder in [*folders, "tests", "tools/tests", "examples", "benchmarks"]:
        # Nothing runs the benchmarks regularly, so what they import must be there.
        more = ["--enable-error-code=attr-defined"] if folder == "benchmarks" else []
        with session.chdir(ROOT / folder):
            session.run("mypy", f"--config-file={ROOT / 'tests' / 'mypy.ini'}", *more, ".")


@nox.session
def layers(session: nox.Session) -> None:
    """Check who may import whom."""
    _install(session, "lint")
    session.run(
        "lint-imports", "--no-logo", "--no-cache", "pyproject.toml", "tools/import-cycles.toml"
    )


@nox.session
def docs(session: nox.Session) -> None:
    """Check the documentation: links and anchors, and every Python block by running it."""
    _install(session, "docs", "torch")
    session.run("pytest", "-n", "auto", "tests/docs", *session.posargs)


@nox.session
def peer(session: nox.Session) -> None:
    """Compare with another project's package, which has an environment of its own.

    ``FLYDSL_PEER_PYTHON`` names an interpreter that has it; otherwise it is installed, and the
    session skipped where that is impossible.
    """
    _install(session, "test", "torch")
    python = os.environ.get("FLYDSL_PEER_PYTHON") or _peer_environment(session)
    environment = {"FLYDSL_PEER_PYTHON": python}
    session.run("pytest", "-m", "peer", "tests/peer", *session.posargs, env=environment)


def _peer_environment(session: nox.Session) -> str:
    """Install the other package and return its interpreter; skip the session if that fails."""
    home = Path(session.create_tmp()).resolve() / "peer"
    session.run("python", "-m", "venv", "--clear", str(home), external=True)
    python = str(home / "bin" / "python")
    try:
        session.run(python, "-m", "pip", "install", "-q", PEER, external=True)
    except CommandFailed:
        session.skip(f"{PEER} cannot be installed")
    return python


@nox.session
def demo(session: nox.Session) -> None:
    """Run the examples in the emulator for every architecture that they name."""
    _install(session, "demo")
    for target in TARGETS:
        for example in sorted((ROOT / "examples").glob("[0-9]*.py")):
            session.run("python", str(example), "--target", target)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks named after ``--``, or all of them."""
    _install(session, "bench")
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build the wheels and prove that they work in environments that hold nothing else."""
    dist = Path(session.create_tmp()).resolve() / "dist"
    session.install("--upgrade", "pip>=25.1")
    session.install("build", "hatchling>=1.27")
    for package in PACKAGES:
        source = f"packages/{package}"
        session.run("python", "-m", "build", "-qn", "--outdir", str(dist), source)
    built = {package: next(dist.glob(f"{_stem(package)}-*.whl")) for package in PACKAGES}
    _prove(session, "full", [*built.values()], "--emulate")
    _prove_families(session, built)
    core_and_target = [built["flydsl-core"], built["flydsl-rocdl"]]
    _prove(session, "compile-only", core_and_target, "--absent", "numpy")


def _prove_families(session: nox.Session, built: dict[str, Path]) -> None:
    """Install the kernel families into a new environment and run what their readmes say."""
    families = [package for package in PACKAGES if not package.startswith("flydsl-")]
    environment = Path(session.create_tmp()).resolve() / "families"
    session.run("python", "-m", "venv", "--clear", str(environment))
    python = str(environment / "bin" / "python")
    wheels = [str(wheel) for package, wheel in built.items() if package not in families]
    wheels += [f"{built[package]}[numpy,emulator]" for package in families]
    session.run(python, "-m", "pip", "install", "-q", *wheels, external=True)
    for package in families:
        program = environment / f"{package}.py"
        with program.open("w") as out:
            page = f"packages/{package}/README.md"
            session.run("python", "tools/markdown_pages.py", page, stdout=out)
        with session.chdir(environment):
            session.run(python, "-P", str(program), external=True, env={"PYTHONPATH": ""})


def _stem(package: str) -> str:
    """Return how the file names of a package's wheels begin; kernel families have short folders."""
    full = package if package.startswith("flydsl-") else f"flydsl-{package}"
    return full.replace("-", "_")


def _prove(session: nox.Session, name: str, wheels: list[Path], *arguments: str) -> None:
    """Install `wheels` into a new environment and compile a vector add there, torch absent."""
    environment = Path(session.create_tmp()).resolve() / name
    session.run("python", "-m", "venv", "--clear", str(environment))
    python = str(environment / "bin" / "python")
    session.run(python, "-m", "pip", "install", "-q", *map(str, wheels), external=True)
    with session.chdir(environment):
        script = str(PROOF)
        for target in TARGETS:
            command = [python, "-P", script, "--target", target, "--absent", "torch", *arguments]
            session.run(*command, external=True, env={"PYTHONPATH": ""})
        session.run(str(environment / "bin" / "flydsl"), "doctor", external=True)
