from __future__ import annotations

import types
from dataclasses import dataclass, field

import pytest

from flydsl.config import scope
from flydsl.errors import CompilerBug, TargetError, UserTypeError
from flydsl.plugins import hookimpl, isolated
from flydsl.plugins.payloads import (
    CodeObject,
    LaunchShape,
    Pipeline,
    Stage,
    TargetInfo,
    TargetSpec,
)
from flydsl.targets import (
    NEUTRAL_PASSES,
    Target,
    check_limits,
    choose_target,
    create_target,
    emit,
    fingerprints,
    known_targets,
    neutral_stages,
    parse_target,
    pipeline_for,
)


@dataclass(frozen=True)
class Machine:
    spec: TargetSpec
    warp_size: int = 32
    shared_capacity: int = 1024
    shared_banks: int = 16
    max_threads_per_block: int = 256
    max_grid: tuple[int, int, int] = (1000, 100, 10)
    object_format: str = "bin"
    address_spaces: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def name(self):
        return str(self.spec)

    @property
    def backend(self):
        return self.spec.backend

    @property
    def arch(self):
        return self.spec.arch

    def atoms(self):
        return {}

    def pipeline(self, options):
        return Pipeline((*neutral_stages(), Stage("lower", "pass")))

    def emit(self, module, options):
        return CodeObject("bin", self.spec, module, ())

    def fingerprint(self):
        return "v1"

    def check_launch(self, shape):
        check_limits(self, shape)


class Backend:
    """A plugin that owns the architectures ``one`` and ``two`` with a feature ``fast``."""

    detected: TargetSpec | None = None

    @hookimpl
    def flydsl_targets(self):
        return [TargetInfo("two", "b", "second"), TargetInfo("one", "b", "first")]

    @hookimpl
    def flydsl_parse_target(self, text):
        arch, *features = text.split(":")
        if arch not in {"one", "two"}:
            return None
        return TargetSpec("b", arch, tuple(sorted((f[:-1], f[-1] == "+") for f in features)))

    @hookimpl
    def flydsl_create_target(self, spec):
        return Machine(spec) if spec.backend == "b" else None

    @hookimpl
    def flydsl_detect_device(self):
        return self.detected


@pytest.fixture
def backend():
    plugin = Backend()
    with isolated(plugin), scope(FLYDSL_TARGET=None):
        yield plugin


ONE, TWO = TargetSpec("b", "one"), TargetSpec("b", "two")


def answering(value):
    def answer():
        return value

    return answer


def test_targets_are_listed_parsed_and_created_once(backend):
    assert [info.name for info in known_targets()] == ["one", "two"]
    spec = parse_target("one:fast+")
    assert spec == TargetSpec("b", "one", (("fast", True),))
    target = create_target(spec)
    assert isinstance(target, Target)
    assert create_target("one:fast+") is target
    assert create_target("one") is not target


def test_order_of_choice(backend):
    backend.detected = TWO
    with scope(FLYDSL_TARGET="one"):
        assert choose_target("two").arch == "two"
        assert choose_target(TWO).arch == "two"
        assert choose_target(create_target("two")).arch == "two"
        assert choose_target().arch == "one"
        assert choose_target(device=TWO, compile_only=True).arch == "one"
        assert choose_target(device=ONE).arch == "one"
    assert choose_target(device=ONE).arch == "one"
    assert choose_target().arch == "two"
    assert choose_target(fallback="one").arch == "two"


def test_a_launch_on_another_architecture_is_refused(backend):
    with pytest.raises(TargetError, match="one") as caught:
        choose_target("one", device=TWO)
    assert caught.value.code == "FLY-T515"
    with scope(FLYDSL_TARGET="one"), pytest.raises(TargetError, match="FLYDSL_TARGET=one"):
        choose_target(device=TWO)
    assert choose_target("one", device=TWO, compile_only=True).arch == "one"


def test_the_refusal_names_the_variable_that_is_set(monkeypatch):
    monkeypatch.delenv("FLYDSL_TARGET", raising=False)
    monkeypatch.setenv("ARCH", "one")
    with isolated(Backend()), pytest.raises(TargetError, match="ARCH=one"):
        choose_target(device=TWO)


def test_features_must_fit_the_device(backend):
    device = TargetSpec("b", "one", (("fast", True),))
    assert choose_target("one:fast+", device=device).name == "one:fast+"
    assert choose_target("one", device=device).name == "one"
    with pytest.raises(TargetError):
        choose_target("one:fast-", device=device)


def test_unknown_architecture_lists_what_is_close(backend):
    with pytest.raises(TargetError, match="did you mean one") as caught:
        choose_target("onne")
    assert "one, two" in str(caught.value)
    assert caught.value.code == "FLY-T513"


def test_nothing_named_says_what_to_set(backend):
    for compile_only in (False, True):
        with pytest.raises(TargetError, match="FLYDSL_TARGET") as caught:
            choose_target(compile_only=compile_only)
        assert "one, two" in str(caught.value)
    with pytest.raises(TargetError) as caught:
        choose_target(compile_only=True, fallback="one")
    assert caught.value.code == "FLY-T514"


def test_fallback_is_noticed_once(backend, capsys):
    assert choose_target(fallback="one").arch == "one"
    notice = capsys.readouterr().err
    assert "one" in notice
    assert "FLYDSL_TARGET" in notice
    assert notice.count("\n") == 1
    choose_target(fallback="one")
    assert capsys.readouterr().err == ""


def test_no_plugin_says_what_to_install():
    with isolated(), pytest.raises(TargetError, match="pip install"):
        parse_target("one")


def test_wrong_types_are_refused(backend):
    with pytest.raises(UserTypeError, match="FLY-U510"):
        choose_target(3)
    broken = types.SimpleNamespace(
        flydsl_parse_target=hookimpl(answering("text")),
        flydsl_create_target=hookimpl(answering(object())),
        flydsl_pipeline=hookimpl(answering([])),
        flydsl_emit=hookimpl(answering(b"")),
    )
    with isolated(broken):
        with pytest.raises(CompilerBug, match="flydsl_parse_target"):
            parse_target("one")
        with pytest.raises(CompilerBug, match="flydsl_create_target"):
            create_target(ONE)
        with pytest.raises(CompilerBug, match="Pipeline"):
            pipeline_for(Machine(ONE), None)
        with pytest.raises(CompilerBug, match="CodeObject"):
            emit(b"", Machine(ONE), None)


def test_pipeline_emit_and_fingerprint_ask_the_target(backend):
    target = create_target("one")
    names = [stage.name for stage in pipeline_for(target, None).stages]
    assert names == [*NEUTRAL_PASSES, "lower"]
    assert emit(b"module", target, None).data == b"module"
    assert fingerprints(target) == ("b:v1",)


def test_a_wrapper_can_insert_a_stage(backend):
    def insert():
        pipeline = yield
        return pipeline.inserted_before("lower", Stage("mine", "pass"))

    timing = types.SimpleNamespace(flydsl_pipeline=hookimpl(wrapper=True)(insert))
    with isolated(backend, timing):
        names = [s.name for s in pipeline_for(create_target("one"), None).stages]
    assert names[-2:] == ["mine", "lower"]


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        (LaunchShape("k", block=(16, 17, None)), "FLY-T510"),
        (LaunchShape("k", block=(257, None, None)), "FLY-T510"),
        (LaunchShape("k", grid=(1, 101, None)), "FLY-T511"),
        (LaunchShape("k", shared_bytes=1025), "FLY-T512"),
    ],
)
def test_limits(shape, code):
    machine = Machine(ONE)
    with pytest.raises(TargetError, match="'k'") as caught:
        machine.check_launch(shape)
    assert caught.value.code == code
    machine.check_launch(LaunchShape("k", (1000, 100, 10), (16, 16, 1), (1, 1, 1), 1024))
    machine.check_launch(LaunchShape("k"))
