"""What `mosaic train` shows before there are numbers."""

from rich.console import Console

from mosaic.ui.cli.training_view import TrainingView


def shown(*events):
    view = TrainingView("a-run", "gym/CartPole-v1   rllib ppo", clock=lambda: 0.0)
    for event in events:
        view.add(event)
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(view.render(80))
    return captured.get()


def test_a_run_that_has_reported_nothing_says_what_it_waits_for():
    started = {"kind": "started", "attempt": 1}
    assert "0 env steps   waiting for the first iteration …" in shown(started)
    assert "0 env steps   waiting for the first iteration …" in shown(started, {"kind": "alert", "message": "1 runner"})


def test_a_note_stands_where_a_reward_will_be():
    without = {"kind": "iteration", "env_steps": 400, "note": "no episode yet"}
    assert "400 env steps   no episode yet" in shown(without)
    later = shown(without, {"kind": "iteration", "env_steps": 800, "episode_reward_mean": 2.5})
    assert "800 env steps   reward 2.500" in later
    assert "no episode yet" not in later


def test_what_a_worker_picked_stands_below_the_title():
    picked = {"kind": "equipped", "message": "ppo: fused engine (a plain net), 8 × gym/CartPole-v1, one thread"}
    lines = shown({"kind": "started", "attempt": 1}, picked).splitlines()
    assert lines[1].strip() == picked["message"]
