"""Checks that every setting of a run's configuration is honoured, refused or declared not applicable.

Every setting is listed here, so that a new one has to be classified before the contract holds again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mosaic.config.field_types import MOST_STEPS
from mosaic.config.run import RunConfig
from mosaic.config.sections import INTERVALS
from mosaic.config.validation import list_settings
from mosaic.testing.duel import CONSTANT, STEPS, duel
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.curve import difference
from mosaic.testing.worker.plays import check_evaluations
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal, WorkerContractError
from mosaic.workers.submission import unhonoured_settings

# Honoured by Mosaic itself, whatever the worker does.
BY_MOSAIC: dict[str, str] = {
    "version": "older configurations are upgraded when they are read",
    "run_id": "the run's folder",
    "name": "kept in config.json",
    "project": "kept in config.json",
    "tags": "kept in config.json",
    "environment.family": "a part of the env's id; unknown ones are refused at submission",
    "environment.env_id": "a part of the env's id; unknown ones are refused at submission",
    "environment.api_type": "used by the catalog that makes the env",
    "training.worker": "the plug-in that is started; unknown ones are refused at submission",
    "training.algorithm": "unknown ones are refused at submission",
    "training.preset": "written into training.params at submission",
    "training.params": "read by the worker's options, which refuse unknown names (proof: options)",
    "resources.max_wall_s": "the supervisor stops the run",
    "resources.max_memory_mb": "the supervisor stops the run",
    "export.on_best": "the host of the worker exports each best checkpoint, as the last one for export.at_end",
    "export.target": "used by the export",
    "export.opset": "used by the export",
    "export.ir_version": "used by the export",
    "export.tolerance": "used by the export",
    "export.observations": "used by the export",
    "telemetry.mirrors": "the host of the worker copies each event; unknown ones are refused at submission",
    "telemetry.frames": "the context of the worker asks for no pictures",
}

# Proven by another part of the contract, under the given name.
ELSEWHERE: dict[str, str] = {
    "policy_configuration": "paradigm",
    "agents": "agent mapping",
    "policies_to_train": "agent mapping",
    "training.policies": "policy settings",
    "environment.num_envs": "resources",
    "resources.num_env_runners": "resources",
    "resources.num_gpus": "resources",
    "resources.num_cpus": "resources",
    "resources.runtime": "resources",
    "resources.ray_address": "resources",
    "seed": "seeds",
    "training.total_timesteps": "a whole run",
    "telemetry.report_every_s": "a long run",
}

# A non-default value of each other setting: refused, or its effect seen in a run.
TRIED: dict[str, object] = {
    "environment.options": {"agents": 2, "steps": 3},
    "environment.wrappers": ("time_limit:max_steps=2",),
    "environment.curriculum": ({"options": {"ends": 2}, "until_steps": 1000}, {"options": {"ends": 3}}),
    "training.episodes": 3,
    "training.stop_reward": -1e6,
    "training.init": "run:settings-of-a-run",
    "checkpoint.every_steps": 1000,
    "checkpoint.every_iterations": 1,
    "checkpoint.every_minutes": 1e-6,
    "checkpoint.folder": "elsewhere",
    "checkpoint.keep_last": 2,
    "checkpoint.keep_best": 0,
    "checkpoint.at_end": False,
    "evaluation.every_steps": 1000,
    "evaluation.episodes": 2,
    "evaluation.opponents": (CONSTANT,),
    "export.at_end": True,
}

_REFUSED: dict[str, object] = {
    **TRIED,
    "export.on_best": True,
    "telemetry.report_every_s": 0.5,
    "agents": {"b": CONSTANT},
    "policies_to_train": ["learner"],
    "training.policies": {"learner": {"gamma": 0.5}},
}
_ALONE = ("checkpoint.every_iterations", "checkpoint.every_minutes")  # instead of every_steps, so in other runs
_PROMISE = "a setting is honoured, refused before there is a run, or declared not applicable"


def check_settings(setup: ContractSetup, short: RunConfig) -> list[ContractProof]:
    """Check all settings; the env of `short`, a run of seconds, is replaced by one whose episodes reveal how it was
    made.
    """
    _check_classified(setup)
    families, environment = setup.info.env_families, duel(_agents(setup))
    if "*" not in families and environment.family not in families:
        return []  # the worker takes none of our envs
    paradigm = "parameter_sharing" if "parameter_sharing" in setup.info.paradigms else None
    config = short.model_copy(update={"environment": environment, "policy_configuration": paradigm})
    refused = unhonoured_settings(setup.worker)
    for name in refused:
        section, _, key = name.partition(".")
        others = dict.fromkeys(INTERVALS) if key in INTERVALS else {}  # or the combination would be refused
        asked = {section: {**others, key: _REFUSED[name]} if key else _REFUSED[name]}
        setup.refusal(config, f"setting {name}", asked, _PROMISE)
    proofs = [ContractProof("settings", f"refused: {', '.join(refused) or 'none'}")]
    if "environment.curriculum" not in refused:
        proofs.append(_check_curriculum(setup, config))
    return [*proofs, *_check_run(setup, config, refused), *_check_ends(setup, config, refused)]


def _agents(setup: ContractSetup) -> int:
    return min(2, setup.info.max_agents or 2)


def _check_classified(setup: ContractSetup) -> None:
    known = {name for name, _ in list_settings(RunConfig)}
    for name in sorted(known ^ {*BY_MOSAIC, *ELSEWHERE, *TRIED}):
        raise WorkerContractError(
            setup.info.name,
            f"setting {name}",
            "nothing says who honours it",
            _PROMISE,
            "list it in mosaic.testing.worker.settings, and show there that it is honoured",
        )
    for name in (*setup.info.refuses, *setup.info.not_applicable):
        if not any(each == name or each.startswith(f"{name}.") for each in known):
            raise WorkerContractError(
                setup.info.name, f"setting {name}", "there is no such setting", _PROMISE, "correct its name"
            )
    for name in set(setup.info.refuses) - set(_REFUSED):
        raise WorkerContractError(
            setup.info.name,
            f"setting {name}",
            f"it is refused, and {BY_MOSAIC.get(name) or ELSEWHERE.get(name)}",
            _PROMISE,
            "refuse no setting that Mosaic itself honours",
        )


def _check_run(setup: ContractSetup, config: RunConfig, refused: Mapping[str, str]) -> list[ContractProof]:
    """Check one run with as many settings at once as can be told apart in its results."""
    steps = config.training.total_timesteps or 4000
    values = TRIED | {"checkpoint.every_steps": max(1, steps // 8), "evaluation.every_steps": max(1, steps // 2)}
    values["checkpoint.folder"] = str(setup.home / "elsewhere")
    names = (
        "environment.options",
        *(name for name in TRIED if name.startswith(("checkpoint.", "evaluation.", "export."))),
    )
    values["environment.options"] = {"agents": _agents(setup), "steps": 3}
    unasked = {"checkpoint.at_end", *_ALONE, *refused, *(("evaluation.opponents",) if _agents(setup) == 1 else ())}
    if any(find_spec(package) is None for package in ("torch", "onnx", "onnxruntime")):
        unasked.add("export.at_end")  # refused for every worker
    asked = {name: values[name] for name in names if name not in unasked}
    with setup.rehearse(setup.changed(config, _nested(asked))) as rehearsal:
        rehearsal.finish("settings")
        proofs = [
            ContractProof(f"setting {name}", seen(_Ask(setup, rehearsal, name, asked[name])))
            for name, seen in _SEEN.items()
            if name in asked and not _not_applicable(setup, name)
        ]
        if "training.init" not in refused:
            proofs.append(_check_init(setup, setup.changed(config, _nested(asked)), rehearsal))
    return proofs


def _check_curriculum(setup: ContractSetup, config: RunConfig) -> ContractProof:
    """Check that each stage trains in its own env, and that its means are of its own episodes only."""
    name = "environment.curriculum"
    first, last = ({"options": {"ends": length}} for length in (2, 3))
    until = (config.training.total_timesteps or 4000) // 2
    curriculum = [{**first, "until_steps": until}, last]
    with setup.rehearse(setup.changed(config, {"environment": {"curriculum": curriculum}})) as rehearsal:
        rehearsal.finish(f"setting {name}")
        ask = _Ask(setup, rehearsal, name, curriculum)
    begun = [(event.get("stage"), event.get("env_steps") or 0) for event in ask.events("curriculum")]
    if [stage for stage, _ in begun] != [2] or begun[0][1] < until:
        raise ask.broken(name, f"stage 2 should begin after {until} env steps, and there were {begun}")
    lengths: dict[object, set[object]] = {}
    for event in ask.events("iteration"):
        lengths.setdefault(event.get("curriculum_stage"), set()).add(event.get("episode_len_mean"))
    if {stage: seen - {None} for stage, seen in lengths.items()} != {1: {2.0}, 2: {3.0}}:
        raise ask.broken(name, f"episodes of 2 and then of 3 steps were asked for, and by stage they had {lengths}")
    return ContractProof(f"setting {name}", f"episodes of 2 steps, and of 3 from {begun[0][1]} env steps on")


def _check_ends(setup: ContractSetup, config: RunConfig, refused: Mapping[str, str]) -> list[ContractProof]:
    """Check limits in runs that nothing else ends, and that nothing is saved when nothing is requested."""
    proofs, nothing = [], {}
    if "checkpoint.at_end" not in refused:
        nothing = {"checkpoint": {"every_steps": MOST_STEPS, "at_end": False}}
    wrapped = {"environment": {"wrappers": TRIED["environment.wrappers"]}}
    limits = {"total_timesteps": None, "episodes": TRIED["training.episodes"], "stop_reward": None}
    with setup.rehearse(setup.changed(config, {"training": limits, **nothing, **wrapped})) as rehearsal:
        rehearsal.finish("setting training.episodes")
        ask = _Ask(setup, rehearsal, "environment.wrappers", 2)
        if not _not_applicable(setup, ask.name):
            proofs.append(ContractProof("setting environment.wrappers", _see_lengths(ask)))
        if nothing and (saved := rehearsal.run.checkpoints()):
            raise ask.broken("checkpoint.at_end", f"{len(saved)} checkpoints of a run that should save none")
    limits = {"total_timesteps": MOST_STEPS, "episodes": None, "stop_reward": TRIED["training.stop_reward"]}
    with setup.rehearse(setup.changed(config, {"training": limits})) as rehearsal:
        rehearsal.finish("setting training.stop_reward")
    proofs += [_check_interval(setup, config, name) for name in _ALONE if nothing and name not in refused]
    ended = [ContractProof(f"setting training.{limit}", "ended the run") for limit in ("episodes", "stop_reward")]
    return [*proofs, *ended, *([ContractProof("setting checkpoint.at_end", "nothing was saved")] if nothing else [])]


def _check_interval(setup: ContractSetup, config: RunConfig, name: str) -> ContractProof:
    """Check that an interval which every iteration completes saves within a run that saves nothing at its end."""
    interval = {**dict.fromkeys(INTERVALS), name.partition(".")[2]: TRIED[name], "at_end": False}
    short = {"total_timesteps": 1, "episodes": None, "stop_reward": None}
    with setup.rehearse(setup.changed(config, {"training": short, "checkpoint": interval})) as rehearsal:
        rehearsal.finish(f"setting {name}")
        ask = _Ask(setup, rehearsal, name, TRIED[name])
    if not ask.events("checkpoint"):
        raise ask.broken(name, f"{name}={ask.value} was asked for, and nothing was saved after an iteration")
    return ContractProof(f"setting {name}", "saved after an iteration")


def _check_init(setup: ContractSetup, config: RunConfig, trained: Rehearsal) -> ContractProof:
    """Check that a run that starts from trained weights differs from the run that trained them."""
    policy = next(iter(trained.run.checkpoints()[-1].manifest.policies))
    asked = {"training": {"init": f"run:{trained.run.id}/{policy}"}}
    longer = duel(_agents(setup), steps=2 * STEPS).model_dump(mode="json")
    setup.refusal(config, "setting training.init of another env", {**asked, "environment": longer}, _PROMISE)
    with setup.rehearse(setup.changed(config, asked)) as rehearsal:
        curve = rehearsal.finish("setting training.init")
    if setup.info.seeds and difference(curve, trained.check_story()) is None:
        ask = _Ask(setup, rehearsal, "training.init", asked["training"]["init"])
        raise ask.broken("training.init", "the run is the same as one that starts with new weights")
    return ContractProof("setting training.init", "another curve than with new weights")


class _Ask:
    """One setting, its value, and the run that was asked to honour it."""

    def __init__(self, setup: ContractSetup, rehearsal: Rehearsal, name: str, value: object) -> None:
        self.setup, self.rehearsal, self.name, self.value = setup, rehearsal, name, value

    def events(self, kind: str) -> list[Mapping[str, Any]]:
        return [event for event in self.rehearsal.events() if event["kind"] == kind]

    def broken(self, name: str, found: str) -> WorkerContractError:
        advice = "honour it, or declare it (evaluates, checkpoints, init, curriculum, refuses, not_applicable)"
        return self.rehearsal.broken(f"setting {name}", found, _PROMISE, advice)


def _see_lengths(ask: _Ask) -> str:
    limit = ask.value["steps"] if isinstance(ask.value, Mapping) else ask.value
    lengths = {event.get("episode_len_mean") for event in ask.events("iteration")} - {None}
    if lengths != {limit}:
        seen = f"had {lengths}" if lengths else "no event tells their length (episode_len_mean)"
        raise ask.broken(ask.name, f"episodes of {limit} steps were asked for, and {seen}")
    return f"episodes of {limit} steps"


def _see_saves(ask: _Ask) -> str:
    written = len(ask.events("checkpoint"))
    if written < 3:
        raise ask.broken(ask.name, f"checkpoints every {ask.value} env steps were asked for, and {written} written")
    return f"{written} written, one every {ask.value} env steps at most"


def _see_folder(ask: _Ask) -> str:
    there, saved = Path(str(ask.value)), ask.rehearsal.run.checkpoints()
    if not saved or not all(each.path.resolve().is_relative_to(there.resolve()) for each in saved):
        raise ask.broken(ask.name, f"checkpoints in {there} were asked for, and it has {sorted(there.glob('*/*'))}")
    return f"{len(saved)} in the folder asked for"


def _see_kept(ask: _Ask) -> str:
    kept = len(ask.rehearsal.run.checkpoints())
    if kept != TRIED["checkpoint.keep_last"]:
        raise ask.broken(ask.name, f"{kept} checkpoints are left with keep_last=2 and keep_best=0")
    return f"{kept} of {len(ask.events('checkpoint'))} left"


def _see_evaluations(ask: _Ask) -> str:
    check_evaluations(ask.rehearsal, f"setting {ask.name}")
    places = {event["env_steps"] for event in ask.events("evaluation")}
    if len(places) < 2:
        raise ask.broken(ask.name, f"evaluations every {ask.value} env steps were asked for, and {len(places)} made")
    return f"evaluated at {', '.join(map(str, sorted(places)))} env steps"


def _see_evaluated(field: str) -> Callable[[_Ask], str]:
    def see(ask: _Ask) -> str:
        (wanted,) = ask.value if isinstance(ask.value, tuple) else (ask.value,)
        told = {event.get(field) for event in ask.events("evaluation")}
        if told != {wanted}:
            raise ask.broken(ask.name, f"an evaluation with {field}={wanted} was asked for, and it had {told}")
        return f"{field}={wanted} in every evaluation"

    return see


def _see_export(ask: _Ask) -> str:
    written = [event for event in ask.events("exported") if event.get("moment") == "end"]
    if not written or not Path(written[0]["path"], "policies.json").is_file():
        alerts = [str(event.get("message")) for event in ask.events("alert")]
        raise ask.broken(ask.name, f"files of the policies were asked for, and none written. {' '.join(alerts)}")
    return f"{written[0]['files']} files, each compared with its policy"


_SEEN: dict[str, Callable[[_Ask], str]] = {
    "environment.options": _see_lengths,
    "checkpoint.every_steps": _see_saves,
    "checkpoint.folder": _see_folder,
    "checkpoint.keep_last": _see_kept,
    "checkpoint.keep_best": _see_kept,
    "evaluation.every_steps": _see_evaluations,
    "evaluation.episodes": _see_evaluated("episodes"),
    "evaluation.opponents": _see_evaluated("opponent"),
    "export.at_end": _see_export,
}


def _not_applicable(setup: ContractSetup, name: str) -> bool:
    declared = setup.info.not_applicable
    unsaved = not setup.info.checkpoints and name.startswith("checkpoint.")
    return unsaved or name in declared or name.partition(".")[0] in declared


def _nested(asked: Mapping[str, object]) -> dict[str, dict[str, object]]:
    nested: dict[str, dict[str, object]] = {}
    for name, value in asked.items():
        section, _, key = name.partition(".")
        nested.setdefault(section, {})[key] = value
    return nested
