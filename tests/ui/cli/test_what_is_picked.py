"""`mosaic train` says with which engine, envs and threads it trains."""

import json

CARTPOLE = ("train", "gym/CartPole-v1", "--steps", "2000")
SAID = "ppo: fused engine (a plain net), 32 × gym/CartPole-v1 (compiled twin), 32 steps a rollout, one thread"


def test_a_run_says_what_it_trains_with(mosaic):
    answer = mosaic(*CARTPOLE)
    assert answer.code == 0
    assert SAID in answer.err.splitlines()
    assert SAID.split(" (a plain")[0] in mosaic("watch", "latest").out


def test_json_stays_alone(mosaic, runs_here):
    answer = mosaic(*CARTPOLE, "--json")
    assert answer.err == ""
    assert json.loads(answer.out)["state"] == "finished"
