"""Whether runs end well, repeat themselves, and go on after a kill."""

from __future__ import annotations

from mosaic.store.checkpoints import find_checkpoint
from mosaic.testing.worker.curve import Values, difference
from mosaic.testing.worker.plays import check_plays
from mosaic.testing.worker.promises import Proof, WorkerContractError
from mosaic.testing.worker.rehearsal import Rehearsal
from mosaic.testing.worker.stage import Stage

_FEW = 20  # events between a checkpoint and the kill, at most


def check_whole(stage: Stage) -> tuple[list[Proof], list[Values]]:
    """One run to its limit, and what it leaves; its curve is what others are compared with."""
    with stage.rehearse() as rehearsal:
        curve = rehearsal.finish("a whole run")
        proofs = [Proof("a whole run", f"{len(curve)} events, {rehearsal.last_steps()} env steps")]
        saved = rehearsal.run.checkpoints()
        if stage.info.checkpoints and not saved:
            raise rehearsal.broken(
                "checkpoints", "a whole run left none", "a run saves its policies", "call context.checkpoint(…)"
            )
        if stage.info.checkpoints:
            find_checkpoint(rehearsal.run.folder, "latest")
            proofs.append(Proof("checkpoints", f"{len(saved)} after a whole run, the last one whole"))
            proofs += check_plays(stage, rehearsal)
    return proofs, curve


def check_seeds(stage: Stage, first: list[Values]) -> list[Proof]:
    if not stage.info.seeds:
        return []
    with stage.rehearse() as rehearsal:
        second = rehearsal.finish("seeds")
    if different := difference(first, second):
        raise rehearsal.broken(
            "seeds",
            f"two runs with the seed {stage.config.seed} differ: {different}",
            "the same seed gives the same metrics",
            "draw all chance from generators that context.seed seeds, or declare seeds=False",
        )
    with stage.rehearse(seed=stage.config.seed + 1) as rehearsal:
        other = rehearsal.finish("seeds")
    if difference(first, other) is None:
        raise rehearsal.broken(
            "seeds",
            f"the runs with the seeds {stage.config.seed} and {stage.config.seed + 1} are the same",
            "another seed gives another run",
            "seed every generator with context.seed",
        )
    return [Proof("seeds", f"{len(first)} events twice the same, others with another seed")]


def check_resume(stage: Stage, whole: list[Values]) -> list[Proof]:
    if not stage.info.resume:
        return []
    if not stage.info.checkpoints:
        raise WorkerContractError(
            stage.info.name,
            "resume",
            "it declares resume and no checkpoints",
            "a run goes on from its last checkpoint",
            "declare checkpoints=True and write some, or declare resume=False",
        )
    with stage.rehearse() as rehearsal:
        saved = rehearsal.see("resume", "it had saved anything", lambda event: event["kind"] == "checkpoint")
        rehearsal.see_training("resume", stage.chance.randint(1, _FEW), after_seq=saved["seq"])
        rehearsal.kill_worker()
        rehearsal.run.resume()
        start = _check_counters(rehearsal)
        curve = rehearsal.finish("resume")
    different = difference(whole, curve) if stage.info.seeds else None
    if different:
        raise rehearsal.broken(
            "resume",
            f"killed and resumed from {start} env steps, the run differs from one that was left alone: {different}",
            "with the same seed, metrics and randomness continue as if nothing had happened",
            "save the state of every generator, learner and env with the checkpoint, and put it back",
        )
    return [Proof("resume", f"killed and resumed from {start} env steps" + (", same curve" * stage.info.seeds))]


def _check_counters(rehearsal: Rehearsal) -> int:
    """Where it went on from, seen by the first event after that."""
    resumed = rehearsal.see("resume", "it was resumed", lambda event: event["kind"] == "resumed")
    start = resumed.get("from_env_steps") or 0
    steps = rehearsal.see_training("resume", after_seq=resumed["seq"]).get("env_steps") or 0
    if not 0 < start < steps:
        raise rehearsal.broken(
            "resume",
            f"resumed from {start} env steps, its next event says {steps}",
            "counters go on where the checkpoint left them",
            "load context.resume_from before training, or declare resume=False",
        )
    return start
