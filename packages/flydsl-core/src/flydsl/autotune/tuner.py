"""The decorator `autotune`, and `do_bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flydsl.autotune.configs import Config
from flydsl.autotune.results import Result, fetch, results_folder, store
from flydsl.autotune.searching import Candidate, search
from flydsl.compiler.arguments.tensors import library_of
from flydsl.compiler.compiled import CompiledFunction
from flydsl.compiler.driver import Call, Driver
from flydsl.config import core as settings
from flydsl.diagnostics import at_user_line
from flydsl.errors import UserTypeError, UserValueError
from flydsl.frontend import JitFunction

__all__ = ["Autotuned", "autotune", "do_bench"]

Configs = Sequence[Config] | Callable[[Mapping[str, Any]], Sequence[Config]]


def do_bench(run: Callable[[], object], device: int = 0, runtime: str = "") -> tuple[float, str]:
    """Return the cost of `run`, a function that launches, and its unit.

    On a GPU the median time of one run in ms; in the emulator the sum of the modelled durations of
    its launches in "model us".

    Args:
        run: Called several times.
        device: The device that it launches on.
        runtime: Name of the runtime; empty takes the one that calls without tensors use.
    """
    from flydsl.plugins.manager import plugin_manager
    from flydsl.runtime import choose_placement, open_runtime

    if runtime:
        return open_runtime(plugin_manager().announced.runtimes[runtime]).measure(run, device)
    placement = choose_placement(())
    return placement.runtime.measure(run, placement.device)


class Autotuned:
    """A launcher whose configuration is chosen per kind of call.

    Calls take the launcher's arguments except those that a configuration supplies.

    Attributes:
        launcher: The launcher.
        results: Outcome by key of the kinds of calls seen so far.
    """

    def __init__(self, launcher: JitFunction, configs: Configs, options: Mapping[str, Any]) -> None:
        self.launcher = launcher
        self._configs = configs
        self._options = options
        self._driver = Driver()
        self.results: dict[str, Result] = {}
        self._compiled: dict[tuple[str, Config], CompiledFunction] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch the best configuration, after a search the first time.

        Raises:
            UserError: The arguments do not fit, or no configuration runs.
        """
        with at_user_line():
            given = self._given(args, kwargs)
            config, key = self._resolve(given)
            self._run(config, key, given)

    def resolve_config(self, *args: Any, **kwargs: Any) -> Config:
        """Return the configuration that a call would use, without launching it for good."""
        with at_user_line():
            return self._resolve(self._given(args, kwargs))[0]

    @property
    def tolerance(self) -> float | None:
        """Relative error by which floating-point results may differ."""
        tolerance: float | None = self._options["tolerance"]
        return tolerance

    def candidates(self, arguments: tuple[Any, ...]) -> list[Config]:
        """Return the configurations for a call, pruned."""
        return self._candidates(self._given(arguments, {}))

    def candidate(
        self, config: Config, arguments: tuple[Any, ...]
    ) -> tuple[Candidate, dict[str, Any], Callable[[Callable[[], object]], tuple[float, str]]]:
        """Compile a configuration for a call.

        Returns:
            The candidate, the arguments by name, and what measures a run.

        Raises:
            UserError, TargetError: It does not compile.
        """
        given = self._given(arguments, {})
        call = self._call(config, given)
        key = self._key(given, call)
        return self._prepared(config, key, given), given, self._measure(call)

    def keep(self, arguments: tuple[Any, ...], result: Result, folder: Path | None) -> Result:
        """Keep a result for calls like this one, on disk and in `folder` if it is given."""
        given = self._given(arguments, {})
        call = self._call(result.best, given)
        key = self._key(given, call)
        dated = store(results_folder(), self.launcher.name, key, self._dated(result, call))
        if folder is not None:
            store(folder, self.launcher.name, key, dated)
        self.results[key] = dated
        return dated

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [parameter.name for parameter in self.launcher.signature.parameters]
        if len(args) > len(names) or any(name not in names for name in kwargs):
            surplus = next((name for name in kwargs if name not in names), "argument")
            raise UserTypeError(
                f"{self.launcher.name} has no parameter for {surplus!r}",
                code="FLY-U219",
                allowed=", ".join(names),
            )
        return {**dict(zip(names, args, strict=False)), **kwargs}

    def _candidates(self, given: Mapping[str, Any]) -> list[Config]:
        configs = self._configs(given) if callable(self._configs) else self._configs
        prune = self._options["prune_configs_by"] or {}
        early = prune.get("early_config_prune")
        chosen = list(configs if early is None else early(configs, given))
        model, top = prune.get("perf_model"), prune.get("top_k")
        if model is not None:
            chosen.sort(key=lambda config: model(**{**given, **config.all_kwargs()}))
        return chosen if top is None else chosen[:top]

    def _values(self, config: Config, given: Mapping[str, Any]) -> dict[str, Any]:
        supplied = config.all_kwargs()
        twice = supplied.keys() & given.keys()
        if twice:
            raise UserValueError(
                f"{sorted(twice)[0]!r} is given by the call and by its configuration",
                code="FLY-U473",
                value=config,
            )
        return dict(self.launcher.bind((), {**given, **supplied}))

    def _call(self, config: Config, given: Mapping[str, Any]) -> Call:
        values = self._values(config, given)
        return self._driver.resolve(self.launcher, values, config.compiler_opts() or None)

    def _key(self, given: Mapping[str, Any], call: Call) -> str:
        names = self._options["key"]
        parts = [f"target={call.target.name}"]
        if call.placement is not None:
            parts.append(f"device={call.placement.info.name}")
        for name, value in sorted(given.items()):
            if library_of(value):
                shape = tuple(value.shape) if names is None or name in names else "any"
                strides = value.stride() if library_of(value) == "torch" else value.strides
                pattern = "".join("01"[int(s == 1)] if s in (0, 1) else "s" for s in strides)
                parts.append(f"{name}={value.dtype}{shape}{pattern}")
            elif names is not None and name in names:
                parts.append(f"{name}={value!r}")
        return ";".join(parts)

    def _resolve(self, given: dict[str, Any]) -> tuple[Config, str]:
        candidates = self._candidates(given)
        if not candidates:
            raise UserValueError(
                f"{self.launcher.name} has no configuration for this call", code="FLY-U472"
            )
        call = self._call(candidates[0], given)
        key = self._key(given, call)
        forced = settings.AUTOTUNE.get()
        known = self.results.get(key)
        if known is None and not forced:
            for folder in (results_folder(), self._options["artifact"]):
                if folder is not None and known is None:
                    known = fetch(Path(folder), self.launcher.name, key)
            if known is None and self._options["default"] is not None:
                return self._options["default"](given), key
        if known is None or known.best not in candidates:
            known = self._search(candidates, given, call, key)
        self.results[key] = known
        return known.best, key

    def _search(
        self, candidates: list[Config], given: dict[str, Any], call: Call, key: str
    ) -> Result:
        measure = self._measure(call)
        result = search(
            candidates,
            lambda config: self._prepared(config, key, given),
            given,
            measure,
            self.tolerance,
        )
        return store(results_folder(), self.launcher.name, key, self._dated(result, call))

    def _measure(self, call: Call) -> Callable[[Callable[[], object]], tuple[float, str]]:
        placement = call.placement
        if placement is None:
            raise UserValueError(
                "configurations cannot be tried when only compiling",
                code="FLY-U474",
                hint="unset COMPILE_ONLY, or pass default= to choose without trying",
            )
        own: Callable[[Callable[[], object]], tuple[float, str]] | None
        own = self._options["do_bench"]
        return own or (lambda run: placement.runtime.measure(run, placement.device))

    def _prepared(self, config: Config, key: str, given: Mapping[str, Any]) -> Candidate:
        compiled = self._compile(config, key, given)
        spills = sum(info.spills for info in compiled.kernels)
        return Candidate(config, lambda: self._run(config, key, given), spills)

    def _dated(self, result: Result, call: Call) -> Result:
        from flydsl.plugins.manager import plugin_manager

        versions = {
            record.distribution: record.version
            for record in plugin_manager().records
            if record.distribution
        }
        device = "" if call.placement is None else call.placement.name
        provenance = {"target": call.target.name, "device": device, **versions}
        return Result(result.best, result.trials, provenance)

    def _compile(self, config: Config, key: str, given: Mapping[str, Any]) -> CompiledFunction:
        found = self._compiled.get((key, config))
        if found is None:
            hints = config.compiler_opts() or None
            call = self._call(config, given)
            found = CompiledFunction(self._driver, self.launcher, call, hints)
            self._compiled[key, config] = found
        return found

    def _run(self, config: Config, key: str, given: Mapping[str, Any]) -> None:
        values = self._values(config, given)
        if config.pre_hook is not None:
            config.pre_hook(values)
        for name in self._options["reset_to_zero"]:
            tensor = values[name]
            if library_of(tensor) == "torch":
                tensor.zero_()
            else:
                tensor[...] = 0
        compiled = self._compile(config, key, given)
        compiled(*values.values())


def _check_names(launcher: JitFunction, what: str, names: Sequence[str]) -> None:
    """Refuse what names no parameter of a launcher.

    Raises:
        UserTypeError: `names` is a text, or holds something else than texts.
        UserValueError: A name is no parameter's.
    """
    known = [parameter.name for parameter in launcher.signature.parameters]
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise UserTypeError(
            f"{what}= takes a list of parameter names",
            code="FLY-U476",
            value=names,
            allowed=", ".join(known),
        )
    for name in names:
        if name not in known:
            raise UserValueError(
                f"{what}= names {name!r}, which is no parameter of {launcher.name}",
                code="FLY-U476",
                value=name,
                allowed=", ".join(known),
            )


def autotune(
    configs: Configs,
    key: Sequence[str] | None = None,
    *,
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] = (),
    default: Callable[[Mapping[str, Any]], Config] | None = None,
    artifact: str | Path | None = None,
    do_bench: Callable[[Callable[[], object]], tuple[float, str]] | None = None,
    tolerance: float | None = None,
) -> Callable[[JitFunction], Autotuned]:
    """Choose among configurations of a launcher; put this above ``@flyc.jit``.

    The order: ``FLYDSL_AUTOTUNE=1`` searches again; what this process found; what was kept on disk
    for the same target, device and kinds of arguments; the shipped table; `default`; a search. In a
    search every candidate is compiled (one that spills is left out if another does not), run once
    and compared with the first one that ran, and only then measured. Tensors hold afterwards what
    they held before.

    Args:
        configs: The candidates, or a function of the arguments by name that returns them.
        key: Names of the arguments whose shape (tensors) or value decides which results hold; None
            takes the shapes of all tensors. Types and stride patterns always count.
        prune_configs_by: ``early_config_prune(configs, arguments)``, and
            ``perf_model(**arguments)`` with ``top_k``.
        reset_to_zero: Tensor arguments to clear before every run.
        default: Chooses without a search.
        artifact: Folder of results to ship with a package.
        do_bench: Measures a run, instead of the device runtime.
        tolerance: Relative error by which floating-point results may differ.

    Raises:
        UserTypeError: The decorated object is no launcher, or a candidate no `Config`.
        UserValueError: There are no candidates, or `key` or `reset_to_zero` names no parameter.
    """
    items: Sequence[object] = () if callable(configs) else configs
    wrong = [item for item in items if not isinstance(item, Config)]
    if wrong:
        with at_user_line():
            raise UserTypeError(
                "autotune chooses among configurations",
                code="FLY-U470",
                value=wrong[0],
                allowed="Config objects, as Config(block=64)",
            )

    def decorate(launcher: JitFunction) -> Autotuned:
        if not isinstance(launcher, JitFunction):
            raise UserTypeError(
                "autotune decorates launchers",
                code="FLY-U224",
                value=launcher,
                hint="put @autotune(...) above @flyc.jit",
            )
        with at_user_line():
            _check_names(launcher, "key", key or ())
            _check_names(launcher, "reset_to_zero", reset_to_zero)
            if not callable(configs) and not configs:
                raise UserValueError(
                    f"{launcher.name} is given no configuration to choose from", code="FLY-U472"
                )
        options = {
            "key": None if key is None else tuple(key),
            "prune_configs_by": prune_configs_by,
            "reset_to_zero": tuple(reset_to_zero),
            "default": default,
            "artifact": artifact,
            "do_bench": do_bench,
            "tolerance": tolerance,
        }
        return Autotuned(launcher, configs, options)

    return decorate
