"""Workers that promise what they do not keep; the contract must catch each."""

import json
import random
import threading

from pydantic import BaseModel, ConfigDict, Field

from mosaic.store.checkpoints import PolicyEntry
from mosaic.workers.api import WorkerCapabilities

_SHORT = threading.Event()


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    iteration_s: float = Field(0.01, description="Seconds of one iteration.")


class Honest:
    """Counts; every method may be made worse."""

    def __init__(self, name, **promises):
        stepless = {"environment": "it counts, and steps no env"}
        told = {"algorithms": ("count",), "paradigms": ("parameter_sharing",), "not_applicable": stepless}
        self.info = WorkerCapabilities(**{"name": name, "version": "1", **told, **promises})

    def options(self, algorithm):
        return Options

    def run(self, context):
        chance = random.Random(context.seed)
        count = self.begin(context, chance)
        while not self.done(context, count):
            _SHORT.wait(context.options.iteration_s)
            count += 1
            self.report(context, count, self.draw(chance))
            if self.info.checkpoints and context.checkpoint_due(10 * count, every_steps=50):
                self.save(context, count, chance)
            self.hold(context)
        if self.info.checkpoints and self.saves_at_end(context):
            self.save(context, count, chance)

    def saves_at_end(self, context):
        return context.config.checkpoint.at_end

    def begin(self, context, chance):
        if context.resume_from is None:
            return 0
        saved = json.loads((context.resume_from.path / "count.json").read_text())
        version, inner, gauss = saved["chance"]
        chance.setstate((version, tuple(inner), gauss))
        return saved["count"]

    def done(self, context, count):
        return context.done(10 * count, count, 0.0 if count else None)

    def draw(self, chance):
        return chance.random()

    def report(self, context, count, reward):
        context.report(kind="iteration", training_iteration=count, env_steps=10 * count, episode_reward_mean=reward)

    def hold(self, context):
        if self.info.pause:
            context.inbox.wait_while_paused()

    def save(self, context, count, chance):
        saved = {"count": count, "chance": chance.getstate()}
        context.checkpoint(
            lambda folder: (folder / "count.json").write_text(json.dumps(saved)),
            env_steps=10 * count,
            policies={"counter": PolicyEntry(files=("count.json",), agents=("*",))},
        )


class Deaf(Honest):
    def hold(self, context):
        pass


class Sleepwalker(Honest):
    """Says that it is paused, and something in it goes on."""

    def hold(self, context):
        if context.inbox.pause_asked():
            threading.Thread(target=self.walk, args=(context,), daemon=True).start()
        context.inbox.wait_while_paused()

    def walk(self, context):
        while context.inbox.pause_asked():
            _SHORT.wait(0.01)
            self.report(context, 10**6, 0.0)


class Moody(Honest):
    def draw(self, chance):
        return random.SystemRandom().random()


class Forgetful(Honest):
    def begin(self, context, chance):
        return 0


class HalfForgetful(Honest):
    """Keeps its counters and loses its randomness."""

    def begin(self, context, chance):
        state = chance.getstate()
        count = super().begin(context, chance)
        chance.setstate(state)
        return count


class Stubborn(Honest):
    def done(self, context, count):
        return 10 * count >= context.config.training.total_timesteps


class Hoarder(Honest):
    """Never saves."""

    def save(self, context, count, chance):
        pass


class Shy(Honest):
    """Cannot stand as many agents as it says."""

    def begin(self, context, chance):
        if context.config.environment.options.get("agents", 1) > 1:
            raise RuntimeError("too many eyes")
        return 0


class Unplayable(Honest):
    def controller(self, checkpoint, policy, request):
        raise KeyError(policy)


class Mute(Honest):
    def options(self, algorithm):
        class Undescribed(BaseModel):
            depth: int = 3

        return Undescribed


class Unbred(Honest):
    """Continues with the options that it was saved with."""

    def options(self, algorithm):
        class Bred(Options):
            boldness: float = Field(0.5, description="Ignored.")

        return Bred


class OldDialect(Honest):
    def options(self, algorithm):
        class Dated(Options):
            model_config = ConfigDict(json_schema_extra={"$schema": "http://json-schema.org/draft-07/schema#"})

        return Dated


class Eager(Honest):
    """Saves at the end whatever it is told."""

    def saves_at_end(self, context):
        return True


class Backwards(Honest):
    def report(self, context, count, reward):
        super().report(context, max(0, 40 - count), reward)


SAVES = {"checkpoints": True, "resume": True}


class Starting(Honest):
    """Never gets past its start: each stage lasts as long as an iteration."""

    def run(self, context):
        while True:
            context.stage("unpacking")
            _SHORT.wait(context.options.iteration_s)


WORKERS = {
    worker.info.name: worker
    for worker in (
        Honest("honest", pause=True, seeds=True, max_agents=2, **SAVES),
        Honest("modest"),
        Deaf("deaf", pause=True),
        Sleepwalker("sleepwalker", pause=True),
        Moody("moody", seeds=True),
        Forgetful("forgetful", **SAVES),
        HalfForgetful("half_forgetful", seeds=True, **SAVES),
        Stubborn("stubborn"),
        Hoarder("hoarder", checkpoints=True),
        Shy("shy", max_agents=3),
        Unplayable("unplayable", checkpoints=True),
        Mute("mute"),
        OldDialect("old_dialect"),
        Honest("undated", version=""),
        Backwards("backwards"),
        Honest("saveless", resume=True),
        Honest("childless", population=True),
        Unbred("unbred", population=True, seeds=True, **SAVES),
        Honest("blind", agent_mapping=True),
        Honest("boastful", resources=("runtime", "ray_address")),
        Honest("unexamined", evaluates=True),
        Honest("unschooled", curriculum=True),
        Honest("homeless", not_applicable={}),
        Eager("eager", checkpoints=True),
        Starting("starting"),
        Honest("impostor"),
    )
}
globals().update(WORKERS)
alias = WORKERS["impostor"]
