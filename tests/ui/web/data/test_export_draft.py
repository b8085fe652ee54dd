"""Draft of an export: words about checkpoints, and which choice stays."""

from mosaic.store.views import CheckpointRow
from mosaic.ui.web.data.export_draft import ExportDraft


def rows(best_by="reward"):
    return [
        CheckpointRow(
            env_steps=1000, path="a", best=True, best_by=best_by, reward=2.5, rating=1200.0, policies=("one",)
        ),
        CheckpointRow(env_steps=2000, path="b", best_by=best_by, reward=0.25, rating=1100.0, policies=("one", "two")),
    ]


def test_a_checkpoint_is_described_by_its_reward_or_its_rating():
    draft = ExportDraft()
    for best_by in ("reward", "env_steps"):
        draft.load("run", rows(best_by))
        assert draft.offers["latest"] == "Latest: 2,000 env steps, reward 0.25"
        assert draft.offers["best"] == "Best: 1,000 env steps, reward 2.5"
    draft.load("run", rows("rating"))
    assert draft.offers["2000"] == "2,000 env steps, rating 1100"


def test_a_chosen_checkpoint_stays_only_in_the_same_run():
    draft = ExportDraft()
    draft.load("run", rows())
    assert (draft.checkpoint, set(draft.chosen)) == ("latest", {"one", "two"})
    draft.choose_checkpoint("best")
    draft.load("run", rows())
    assert (draft.checkpoint, set(draft.chosen)) == ("best", {"one"})
    draft.load("another", rows())
    assert draft.checkpoint == "latest"
