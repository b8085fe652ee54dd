"""`run:` policies, and whom the store trusts."""

import logging
import shutil

import pytest

from mosaic.core.errors import InputError, TrustError, UnknownNameError
from mosaic.core.reference import parse_options
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.controller import Explains, Explanation, PolicyRequest, Remembers
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.archives.trust import require_trust, trust_given
from mosaic.store.checkpoints import PolicyEntry, find_checkpoint, list_checkpoints
from mosaic.store.policies.run_policy import kind, parse_run_reference
from mosaic.store.store import Store
from tests.store.store_cases import config, write


class Controller:
    """Answers with what it was made from."""

    def __init__(self, checkpoint, policy, request):
        self.made_from = (checkpoint.env_steps, policy, request.agents)
        self.log = []

    def begin(self, agents, seed):
        self.log.append(("begin", agents))

    def act(self, turn):
        return dict.fromkeys(turn.observations, self.made_from[1])

    def forget(self, agent):
        self.log.append(("forget", agent))

    def close(self):
        self.log.append(("close",))


class Worker:
    loads_pickles = False

    def controller(self, checkpoint, policy, request):
        return Controller(checkpoint, policy, request)


class Opinionated(Worker):
    def controller(self, checkpoint, policy, request):
        made = Controller(checkpoint, policy, request)
        made.explain = lambda turn: {agent: Explanation(None, 1.0) for agent in turn.observations}
        return made


class Unpickler(Worker):
    loads_pickles = True


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    """Plug-ins that are not installed."""
    known = {"toy": Worker(), "mute": object(), "opinionated": Opinionated(), "unpickler": Unpickler()}
    monkeypatch.setattr("mosaic.store.policies.run_policy.load_plugin", lambda group, name: known[name])


def load(reference, agents=("red_0", "blue_0"), possible=("red_0", "blue_0")):
    spec = EnvSpec(EnvFacts(), possible, {}, {})
    options = parse_options(reference, reference.removeprefix("run:"), kind.options, kind.first)
    return kind.make(options, PolicyRequest(reference, spec, agents))


def turn(*agents):
    return Turn(dict.fromkeys(agents, 0), {}, {}, {}, {}, {}, {})


TWO = {"red": PolicyEntry(agents=("red_*",)), "blue": PolicyEntry(agents=("blue_*", "green_*")), "old": PolicyEntry()}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nightly", ("nightly", "latest", None)),
        ("nightly@latest", ("nightly", "latest", None)),
        ("nightly@best/red", ("nightly", "best", "red")),
        ("nightly@1200/a/b", ("nightly", 1200, "a/b")),
        ("nightly/red@home", ("nightly", "latest", "red@home")),
    ],
)
def test_the_grammar(text, parts):
    assert parse_run_reference(text) == parts


@pytest.mark.parametrize("text", ["@best", "nightly@", "nightly/", "/red"])
def test_what_is_no_reference_is_said(text):
    with pytest.raises(InputError, match=r"is not run:RUN\[@best\|@latest\|@STEP\]\[/POLICY\], for example run:latest"):
        parse_run_reference(text)


@pytest.mark.parametrize("text", ["n@newest", "n@-5", "n@1e3", "n@²", "n@" + "9" * 19])
def test_what_is_no_checkpoint_is_said(text):
    with pytest.raises(InputError, match="is neither @best nor @latest nor a number of env steps"):
        parse_run_reference(text)


def test_checkpoint_and_policy_are_picked(run):
    write(run, 100, 5.0)
    write(run, 200, 1.0)
    both = ("red_0", "blue_0")
    assert load("run:nightly").made_from == (200, "learner", both)
    assert load("run:latest@best").made_from == (100, "learner", both)
    assert load(f"run:{run.run_id}@200/learner").made_from == (200, "learner", both)


def test_each_agent_gets_the_policy_that_the_run_gave_it(run):
    write(run, 100, policies=TWO, data=b"x")
    assert load("run:nightly", agents=("red_0",)).made_from == (100, "red", ("red_0",))
    assert load("run:nightly/old", agents=("red_0",)).made_from == (100, "old", ("red_0",))
    group = load("run:nightly")
    group.begin(("red_0", "blue_0"), 7)
    assert group.act(turn("blue_0", "red_0", "blue_1")) == {"red_0": "red", "blue_0": "blue", "blue_1": "blue"}
    assert isinstance(group, Remembers)
    group.forget("red_0")
    red = group._controllers["red"]
    assert red.made_from == (100, "red", ("red_0",))
    group.close()
    assert red.log == [("begin", ("red_0",)), ("forget", "red_0"), ("close",)]


def test_agents_that_are_born_later_are_looked_up_then(run):
    write(run, 100, policies=TWO)
    group = load("run:nightly", agents=("*",), possible=())
    group.begin((), 1)
    assert group.act(turn("green_5", "red_9")) == {"green_5": "blue", "red_9": "red"}
    assert group._controllers["blue"].log == [("begin", ("green_5",))]


def test_those_who_explain_do(run):
    policies = {"red": PolicyEntry(agents=("red_*",), worker="opinionated"), "blue": PolicyEntry(agents=("blue_*",))}
    write(run, 100, policies=policies)
    group = load("run:nightly")
    assert isinstance(group, Explains)
    opinions = group.explain(turn("red_0", "blue_0"))
    assert opinions == {"red_0": Explanation(None, 1.0), "blue_0": Explanation(None, None)}


def test_errors_say_what_to_type(store, run):
    with pytest.raises(UnknownNameError, match=r"There is no run 'nigthly'\. Did you mean 'nightly'\?"):
        load("run:nigthly")
    with pytest.raises(InputError, match=f"^Run '{run.run_id}' has no checkpoint yet.$"):
        load("run:nightly")
    with pytest.raises(InputError, match="the option 'run' is missing"):
        load("run:")
    write(run, 100, policies=TWO)
    text = f"^There is no policy of run '{run.run_id}' named 'rad'. Did you mean 'red'\\? Known: blue, old, red.$"
    with pytest.raises(UnknownNameError, match=text):
        load("run:nightly/rad")
    text = rf"^Run '{run.run_id}' trained no policy for agent 'pink'\. Name one of its policies: run:.*/POLICY with red, blue, old\.$"  # noqa: E501
    with pytest.raises(InputError, match=text):
        load("run:nightly", agents=("pink",))
    write(run, 200, worker="mute")
    text = (
        f"^Run '{run.run_id}' was trained by the worker 'mute', whose policies cannot play: it makes no controllers.$"
    )
    with pytest.raises(InputError, match=text):
        load("run:nightly")


def test_a_damaged_checkpoint_is_passed_over_aloud(run, caplog):
    write(run, 100)
    (write(run, 200) / "facts.json").write_text("[]")
    with caplog.at_level(logging.WARNING):
        assert load("run:nightly").made_from[0] == 100
    (record,) = caplog.records
    assert record.getMessage() == (
        f"The checkpoint of run '{run.run_id}' at 200 env steps is damaged: its file 'facts.json' has changed since it "
        "was written. The one at 100 is used instead."
    )


# Trust.


@pytest.fixture
def imported(store, run, tmp_path):
    """A run of ours that went out and came back: nobody knows what happened to it there."""
    write(run, 100, worker="unpickler", pickles=True)
    return import_run(store, archive_run(run, tmp_path / "a.tar.gz"))


def test_our_own_checkpoints_are_trusted_and_imported_ones_are_not(store, run, imported):
    ours, theirs = find_checkpoint(run), find_checkpoint(imported)
    assert ours.trusted(store)
    require_trust(ours, trust=False)
    assert not theirs.trusted(store)
    text = (
        rf"^The checkpoint of run '{imported.run_id}' at 100 env steps holds pickles, which run code when they are "
        r"loaded, and it was imported\. If you trust its origin, add --trust \(or set MOSAIC_TRUST=1\)\.$"
    )
    with pytest.raises(TrustError, match=text):
        require_trust(theirs, trust=False)
    require_trust(theirs, trust=True)


def test_a_folder_copied_in_by_hand_is_not_trusted(store, tmp_path):
    stranger = Store(tmp_path / "stranger").create(config(run_id="gift"))
    write(stranger, 100)
    store.runs.mkdir(parents=True)
    shutil.copytree(stranger.path, store.runs / "gift")
    gift = find_checkpoint(store.resolve("gift"))
    assert find_checkpoint(stranger).trusted(Store(tmp_path / "stranger"))
    assert not gift.trusted(store)
    with pytest.raises(TrustError, match="and no run of this store wrote it as it is now"):
        require_trust(gift, trust=False)


def test_a_changed_file_is_not_trusted_even_if_nobody_compared_it(store, run):
    path = write(run, 100)
    (path / "facts.json").write_text("evil")
    (listed,) = list_checkpoints(run)
    assert not listed.trusted(store)


def test_a_checkpoint_is_not_trusted_by_another_store(store, run, tmp_path):
    write(run, 100)
    assert not find_checkpoint(run).trusted(Store(tmp_path / "other"))


def test_the_key_is_nobody_elses_business(store, run):
    write(run, 100)
    assert (store.home / "store.key").stat().st_mode & 0o777 == 0o600


def test_imported_pickles_play_only_with_trust(imported, monkeypatch):
    with pytest.raises(TrustError, match="--trust"):
        load(f"run:{imported.run_id}")
    assert not trust_given()
    monkeypatch.setenv("MOSAIC_TRUST", "1")
    assert load(f"run:{imported.run_id}").made_from[0] == 100


def test_a_manifest_that_denies_its_pickles_is_not_believed(store, run, tmp_path):
    write(run, 100, worker="unpickler", pickles=False)
    assert load("run:nightly").made_from[0] == 100
    gift = import_run(store, archive_run(run, tmp_path / "a.tar.gz"))
    with pytest.raises(TrustError):
        load(f"run:{gift.run_id}")


@pytest.mark.parametrize("pickles", [False, True])  # True: beside what plays, in files that only going on reads
def test_imported_checkpoints_of_a_worker_that_plays_without_pickles_need_no_trust(store, run, tmp_path, pickles):
    write(run, 100, pickles=pickles)
    gift = import_run(store, archive_run(run, tmp_path / "a.tar.gz"))
    assert load(f"run:{gift.run_id}").made_from[0] == 100
