"""The installed catalog, and random play, for the tests of this folder."""

from __future__ import annotations

import importlib

import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.upstream import draw_without_screen, quiet
from mosaic.envs.catalog import entries, make_env
from mosaic.envs.contract.session import Sampler

draw_without_screen()
IDS = [entry.id for entry in entries() if entry.installed]
PETTINGZOO = [env_id for env_id in IDS if not env_id.startswith(("gym/", "mosaic/"))]
PONG = next(env_id for env_id in IDS if env_id.startswith("butterfly/cooperative_pong_"))  # v5 or v6
WATERWORLD = "sisl/waterworld_v4"
needs_waterworld = pytest.mark.skipif(WATERWORLD not in IDS, reason="PettingZoo 1.26 has no waterworld")
HEAVY = {"gym/CarRacing-v3", "butterfly/pistonball_v6", "sisl/pursuit_v4", "classic/go_v5"}


def steps_for(env_id, few, many):
    return few if env_id in HEAVY else many


def turns(env, seed, steps):
    """The Turns of random legal play."""
    sampler = Sampler(env.action_spaces, seed)
    turn = env.reset(seed)
    yield turn
    for _ in range(steps):
        if turn.over:
            return
        turn = env.step(sampler.draw(turn))
        yield turn


def module_of(env_id):
    family, name = env_id.split("/")
    with quiet():
        return importlib.import_module(f"mpe2.{name}" if family == "mpe" else f"pettingzoo.{family}.{name}")


def raw_aec(env_id, **options):
    """PettingZoo's own env, as our catalog asks for it."""
    options.setdefault("render_mode", None if "hanabi" in env_id else "rgb_array")
    with quiet():
        return module_of(env_id).env(**options)


def raw_parallel(env_id, **options):
    options.setdefault("render_mode", "rgb_array")
    with quiet():
        return module_of(env_id).parallel_env(**options)


def make_aec(env_id):
    return make_env(EnvironmentConfig(env_id=env_id, api_type="aec"))
