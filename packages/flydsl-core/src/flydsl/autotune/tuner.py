"""The decorator `autotune`, and `do_bench`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from flydsl.autotune.configs import Config, check_configs, check_pruning, check_reference
from flydsl.autotune.keys import Origin, call_key, key_of, provenance_of
from flydsl.autotune.memory import Snapshot, clear, tensors_in
from flydsl.autotune.results import Result, fetch, results_folder, store
from flydsl.autotune.searching import Candidate, Check, Measure, Rules, search
from flydsl.compiler.compiled import CompiledFunction
from flydsl.compiler.driver import Call, Driver
from flydsl.compiler.writes import written_by
from flydsl.config import core as settings
from flydsl.config import watch
from flydsl.diagnostics import at_user_line
from flydsl.errors import UserTypeError, UserValueError
from flydsl.frontend import JitFunction
from flydsl.frontend.eager import CAPTURE, capturing, ends_graph, run_eagerly

__all__ = ["Autotuned", "autotune", "do_bench"]

_WATCHED = watch(
    settings.TARGET,
    settings.DEVICE,
    settings.COMPILE_ONLY,
    settings.OPT_LEVEL,
    settings.PLUGINS_DISABLE,
)
_MOST_SEEN = 4096

F = TypeVar("F", bound=Callable[[Mapping[str, Any]], object])
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
    """

    def __init__(self, launcher: JitFunction, configs: Configs, options: Mapping[str, Any]) -> None:
        self.launcher = launcher
        self._configs = configs
        self._options = options
        self._driver = Driver()
        self._lock = threading.RLock()
        self._reference: Callable[[Mapping[str, Any]], object] | None = None
        self._seen: dict[Hashable, tuple[Config, CompiledFunction | None]] = {}
        self._seen_with: object = None
        self._found: dict[Hashable, dict[str, Result]] = {}
        self._origin = Origin(launcher, None)

    @property
    def results(self) -> dict[str, Result]:
        """Outcome by key of the kinds of calls seen, of the program and reference as they are."""
        return self._found.setdefault(self._origin.identity(), {})

    @ends_graph
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch the best configuration, after a search the first time.

        Raises:
            UserError: The arguments do not fit, or no configuration runs.
        """
        if CAPTURE in sys.modules and capturing():
            run_eagerly(self._call_best, args, kwargs)
        else:
            self._call_best(*args, **kwargs)

    def _call_best(self, *args: Any, **kwargs: Any) -> None:
        with at_user_line():
            given = self._given(args, kwargs)
            known = self._known(given)
            if known is None:
                self._runner(self._resolve(given), given)()
            else:
                config, compiled = known
                self._runner(config, given, compiled)()

    def _known(self, given: dict[str, Any]) -> tuple[Config, CompiledFunction | None] | None:
        """Return the configuration of a call like an earlier one, and what it is compiled to.

        None for arguments that have to be described first; compiled is what has hints.
        """
        try:
            key = call_key(given)
        except RuntimeError:  # a tensor without memory: what is wrong with it is said elsewhere
            return None
        now = _WATCHED(), self._origin.parts()
        if self._seen_with != now:
            self._seen.clear()
            self._seen_with = now
        found = None if key is None else self._seen.get(key)
        if found is None and key is not None:
            config = self._resolve(given)
            compiled = self._compiled(config, given) if config.compiler_opts() else None
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            found = self._seen[key] = config, compiled
        return found

    def resolve_config(self, *args: Any, **kwargs: Any) -> Config:
        """Return the configuration that a call would use, without launching it for good."""
        with at_user_line():
            return self._resolve(self._given(args, kwargs))

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
    ) -> tuple[Candidate, dict[str, Any], Measure, Rules]:
        """Compile a configuration for a call.

        Returns:
            The candidate, the arguments by name, what measures a run, and how to compare results.

        Raises:
            UserError, TargetError: It does not compile.
        """
        given = self._given(arguments, {})
        call = self._call(config, given)
        hooked = [other for other in self._candidates(given) if other.pre_hook]
        rules = self._rules([config, *hooked], given)
        return self._prepared(config, given), given, self._measure(call), rules

    def reference(self, function: F) -> F:
        """Decorate a function that computes what candidates have to agree with.

        Args:
            function: Called with one mapping, of the arguments of a call by name; writes results
                to their tensors.

        Returns:
            `function`. Without one, candidates have to agree with the first that runs.

        Raises:
            UserTypeError: `function` cannot be called so.
        """
        with at_user_line():
            check_reference(self.launcher.name, function)
        with self._lock:
            self._reference = function
            # They were found without it.
            self._found.clear()
            self._origin = Origin(self.launcher, function)
            self._seen.clear()
        return function

    @property
    def has_reference(self) -> bool:
        """Whether candidates have to agree with something else than the first one."""
        return self._reference is not None

    def expected(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return what the reference leaves in the tensors that candidates write to, by name.

        Raises:
            UserError: It fails.
        """
        given = self._given(arguments, {})
        rules = self._rules(self._candidates(given), given)
        before = Snapshot(given, rules.written)
        try:
            return dict(Check(before, given, rules).wanted or {})
        finally:
            before.restore()

    def keep(self, arguments: tuple[Any, ...], result: Result, folder: Path | None) -> Result:
        """Keep a result for calls like this one, on disk and in `folder` if it is given."""
        given = self._given(arguments, {})
        call = self._call(result.best, given)
        key = self._key(given, call)
        dated = self._store(result, call, key, self._origin.hashes())
        if folder is not None:
            store(folder, self.launcher.name, key, dated)
        self.results[key] = dated
        return dated

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [parameter.name for parameter in self.launcher.signature.parameters]
        surplus = [repr(name) for name in kwargs if name not in names]
        if len(args) > len(names):
            surplus.append(f"a positional argument more than its {len(names)}")
        if surplus:
            raise UserTypeError(
                f"{self.launcher.name} has no parameter for {surplus[0]}",
                code="FLY-U219",
                allowed=", ".join(names),
            )
        positional = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name in positional:
                raise UserTypeError(
                    f"{self.launcher.name} is given two values for {name!r}", code="FLY-U219"
                )
        return {**positional, **kwargs}

    def _candidates(self, given: Mapping[str, Any]) -> list[Config]:
        configs = self._configs(given) if callable(self._configs) else self._configs
        prune = self._options["prune_configs_by"] or {}
        early = prune.get("early_config_prune")
        chosen = list(configs if early is None else early(configs, given))
        check_configs(chosen)
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
        return key_of(self.launcher, given, call, self._options["key"])

    def _resolve(self, given: dict[str, Any]) -> Config:
        candidates = self._candidates(given)
        if not candidates:
            raise UserValueError(
                f"{self.launcher.name} has no configuration for this call", code="FLY-U472"
            )
        call = self._call(candidates[0], given)
        key = self._key(given, call)
        results = self.results
        found = _among(candidates, results.get(key))
        if found is not None:
            return found
        # Of several threads that need the same, one searches.
        with self._lock:
            # Before it runs: it may change what it depends on.
            origin, results = self._origin.hashes(), self.results
            known = results.get(key) or self._kept(call, key, origin)
            if known is not None:
                results[key] = known
            found = _among(candidates, known)
            if found is not None:
                return found
            default = self._options["default"]
            if default is not None and not settings.AUTOTUNE.get():
                chosen: Config = default(given)
                check_configs([chosen])
                return chosen
            result = self._store(self._search(candidates, given, call), call, key, origin)
            results[key] = result
            best = _among(candidates, result)
            assert best is not None
            return best

    def _kept(self, call: Call, key: str, origin: Mapping[str, str] | None) -> Result | None:
        """Return a result from disk: of this program and these versions, or a shipped one.

        Args:
            call: The call.
            key: Its key.
            origin: See `Origin.hashes`; None finds shipped results only.
        """
        if settings.AUTOTUNE.get():
            return None
        name, shipped = self.launcher.name, self._options["artifact"]
        own = None if origin is None else fetch(results_folder(), name, key)
        now = provenance_of(call, origin)
        if own is None or any(own.provenance.get(k) != v for k, v in now.items()):
            own = None if shipped is None else fetch(Path(shipped), name, key)
        return own

    def _search(self, candidates: list[Config], given: dict[str, Any], call: Call) -> Result:
        measure = self._measure(call)
        rules = self._rules(candidates, given)
        return search(
            candidates, lambda config: self._prepared(config, given), given, measure, rules
        )

    def _rules(self, candidates: Sequence[Config], given: Mapping[str, Any]) -> Rules:
        written: frozenset[str] | None = None
        if not any(config.pre_hook for config in candidates):
            written = self._written(candidates, given)
        return Rules(self.tolerance, self._reference, written)

    def _written(self, candidates: Sequence[Config], given: Mapping[str, Any]) -> Any:
        """Return which arguments any candidate writes to; None if one may write to others."""
        cleared = frozenset(self._options["reset_to_zero"])
        found: frozenset[str] = cleared
        for config in candidates:
            try:
                written = written_by(self.launcher, self._values(config, given), found)
            except Exception:  # noqa: BLE001 - it will be rejected for that
                continue
            if written is None:
                return None
            found = written
        return found

    def _measure(self, call: Call) -> Measure:
        placement = call.placement
        if placement is None:
            raise UserValueError(
                "configurations cannot be tried when only compiling",
                code="FLY-U474",
                hint="unset COMPILE_ONLY, or pass default= to choose without trying",
            )
        own: Measure | None = self._options["do_bench"]
        return own or (lambda run: placement.runtime.measure(run, placement.device))

    def _prepared(self, config: Config, given: Mapping[str, Any]) -> Candidate:
        compiled = self._compiled(config, given)
        spills = sum(info.spills for info in compiled.kernels)
        place = self._call(config, given).placement
        shared = "" if place is None or place.info.emulated else place.name
        return Candidate(config, self._runner(config, given, compiled), spills, shared)

    def _compiled(self, config: Config, given: Mapping[str, Any]) -> CompiledFunction:
        hints = config.compiler_opts() or None
        return CompiledFunction(self._driver, self.launcher, self._call(config, given), hints)

    def _store(
        self, result: Result, call: Call, key: str, origin: Mapping[str, str] | None
    ) -> Result:
        """Keep a result on disk, unless its origin cannot be compared later; return it dated."""
        dated = Result(result.best, result.trials, provenance_of(call, origin))
        folder = None if origin is None else results_folder()
        return store(folder, self.launcher.name, key, dated)

    def _runner(
        self,
        config: Config,
        given: Mapping[str, Any],
        compiled: CompiledFunction | None = None,
    ) -> Callable[[], None]:
        """Return what launches a configuration with these arguments."""
        values = self._values(config, given)
        if compiled is None and config.compiler_opts():
            compiled = self._compiled(config, given)
        names = self._options["reset_to_zero"]
        some = {name: values[name] for name in names}
        cleared = [tensor for _, tensor in tensors_in(some)] if some else []

        def run() -> None:
            if config.pre_hook is not None:
                config.pre_hook(values)
            for tensor in cleared:
                clear(tensor)
            if compiled is not None:
                compiled(*values.values())
            else:
                self.launcher(**values)

        return run


def _among(candidates: Sequence[Config], result: Result | None) -> Config | None:
    """Return the candidate that won; what was read from a file lacks its hook."""
    if result is None:
        return None
    return next((config for config in candidates if config == result.best), None)


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
    do_bench: Measure | None = None,
    tolerance: float | None = None,
) -> Callable[[JitFunction], Autotuned]:
    """Choose among configurations of a launcher; put this above ``@flyc.jit``.

    The order: what this process found; unless ``FLYDSL_AUTOTUNE=1`` asks for a search, what was
    kept on disk for the same program, reference, versions, target, device and kinds of arguments,
    the shipped table, and `default`; a search. In a search every candidate is compiled (one that
    spills is left out if another does not), run once and compared with the reference or the first
    one that ran, and only then measured. Tensors hold afterwards what they held before.

    Args:
        configs: The candidates, or a function of the arguments by name that returns them.
        key: Names of the arguments whose shape (tensors) or value decides which results hold; None
            takes the shapes of all tensors. Types, alignments, stride patterns and the compile-time
            values that calls give always count.
        prune_configs_by: ``early_config_prune(configs, arguments)``, and
            ``perf_model(**arguments)`` with ``top_k``.
        reset_to_zero: Tensor arguments to clear before every run.
        default: Chooses without a search.
        artifact: Folder of results to ship with a package.
        do_bench: Measures a run, instead of the device runtime: returns a number, or one and its
            unit.
        tolerance: Relative error by which floating-point results may differ.

    Raises:
        UserTypeError: The decorated object is no launcher, or a candidate no `Config`.
        UserValueError: There are no candidates, or `key` or `reset_to_zero` names no parameter.
    """
    with at_user_line():
        check_configs(() if callable(configs) else configs)
        check_pruning(prune_configs_by or {})

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
