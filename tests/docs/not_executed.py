"""Commands of the documentation that the tests cannot execute: each with the reason, and what covers it.

A command is named by its whole line, without its comment. What covers it is a test, as pytest names it, or `job:NAME`,
a job of `.github/workflows/test.yml` that runs the target of make, or all parts of it together with another job.
"""

from __future__ import annotations

import re
import shlex
from functools import cache

import yaml

from tests.docs.pages import ROOT

BENCH = "tests/ui/cli/test_bench_command.py"
CLUSTER = "tests/docs/test_examples.py::test_ray_cluster"
DAGGER = "tests/learners/bc/test_dagger.py::test_a_person_is_the_expert_through_what_is_recorded_meanwhile"
DEPLOYMENT = "tests/docs/test_deployment.py"
EXTRAS = "tests/docs/test_packaging.py::test_with_an_extra_the_doctor_is_content"
FRAMES = "tests/workers/rllib/test_rllib_frames.py"
GAMES = "tests/ui/cli/test_watching_games.py"
PERSON = "tests/server/test_external.py::test_a_run_trains_one_agent_on_games_in_which_a_person_plays_the_other"
PROJECT = "tests/test_project_files.py"
KUBERNETES = ("needs a Kubernetes cluster", f"{DEPLOYMENT}::test_kuberay_values_fit_together")
DOCKER = ("needs Docker", f"{DEPLOYMENT}::test_compose_has_a_head_and_two_workers_with_a_token")
MACHINES = ("rents machines, or needs those", f"{DEPLOYMENT}::test_launcher_files_are_accepted_by_rays_schema")
PACKAGES = ("installs packages", EXTRAS)
MEASURES = ("measures for many minutes", f"{BENCH}::test_the_report_has_medians_intervals_goals_and_the_machine")
ROWS = ("measures for many minutes", f"{BENCH}::test_rows_are_chosen_where_a_benchmark_has_them")
LINES = {
    "make demo": (
        "installs Mosaic, then opens a board for a person",
        "tests/ui/cli/test_cli_foundation.py::test_the_demo_trains_proves_and_plays",
    ),
    "make setup": ("installs Mosaic", "job:test"),
    "make check": ("is CI itself, in parts", "job:test,macos"),
    "make test": ("is CI itself", "job:test"),
    "make bench-smoke": ("measures: a part of make test", "job:test"),
    "make test-docs": ("is CI itself", "job:docs"),
    "make docs": ("is CI itself", "job:docs"),
    "make test-packaging": ("is CI itself", "job:packaging"),
    "make test-all": ("runs for hours", f"{PROJECT}::test_every_file_of_tests_that_make_names_exists"),
    "make bench": ("measures for hours", f"{PROJECT}::test_make_bench_runs_every_benchmark"),
    "make bench-full": ("measures for more than a day", f"{PROJECT}::test_make_bench_runs_every_benchmark"),
    "pip install -c constraints.txt -e '.[gym,classic,sisl,butterfly,mpe]'": PACKAGES,
    "pip install -c constraints.txt -e '.[gym,classic,mpe,web,tui]'": PACKAGES,
    "pip install 'mosaic-rl[rllib]'": PACKAGES,
    "pip install 'mosaic-rl[sb3]'": PACKAGES,
    "mosaic bench --quick": MEASURES,
    "mosaic bench ppo sb3": MEASURES,
    "mosaic bench ppo:cartpole": ROWS,
    "mosaic bench --with-peers": (
        "installs packages",
        "tests/ui/cli/test_bench_packages.py::test_an_installation_that_fails_shows_the_command",
    ),
    "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=…": ("belongs to a cluster of several machines", CLUSTER),
    "ray start --head --port=6379": ("would stay after the test", CLUSTER),
    "ray start --address=FIRST:6379": ("needs a second machine", CLUSTER),
    "mosaic train ENV --worker rllib --num-env-runners 16 --ray-address FIRST:6379": ("needs a cluster", CLUSTER),
    "export RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')": DOCKER,
    "docker compose -f deploy/compose.yaml up --build --detach": DOCKER,
    "docker compose -f deploy/compose.yaml exec head mosaic train gym/CartPole-v1 --worker rllib --num-env-runners 2 "
    "--ray-address auto": DOCKER,
    "docker compose -f deploy/compose.yaml down": DOCKER,
    "kubectl create secret generic mosaic-ray-token --from-literal=token=$(openssl rand -hex 32)": KUBERNETES,
    "helm repo add kuberay https://ray-project.github.io/kuberay-helm/": KUBERNETES,
    "helm repo update": KUBERNETES,
    "helm install kuberay-operator kuberay/kuberay-operator": KUBERNETES,
    "kubectl apply -f deploy/kuberay-store.yaml": KUBERNETES,
    "helm install mosaic kuberay/ray-cluster --values deploy/kuberay-values.yaml "
    "--set image.repository=REGISTRY/mosaic-rl": KUBERNETES,
    "kubectl exec HEAD_POD -- mosaic train gym/CartPole-v1 --worker rllib --num-env-runners 8 "
    "--ray-address auto": KUBERNETES,
    "ray up deploy/ray-aws.yaml": MACHINES,
    "ray exec deploy/ray-aws.yaml 'mosaic train gym/CartPole-v1 --worker rllib --num-env-runners 8 "
    "--ray-address auto'": MACHINES,
    "ray down deploy/ray-aws.yaml": MACHINES,
    "mosaic runs list --server ssh://gpu-box": ("needs another machine", "tests/server/test_ssh.py::test_through_ssh"),
    "mosaic tui": (
        "needs a terminal",
        "tests/ui/tui/test_end_to_end.py::test_create_train_watch_stop_export_quit_and_reopen",
    ),
    "mosaic tui --server http://HOST:8642": (
        "needs a terminal",
        "tests/ui/tui/test_remote_backend.py::test_the_server_resolves_a_draft_or_says_what_is_wrong",
    ),
    "mosaic demos import minari:D4RL/door/human-v2 --name door": (
        "needs a dataset that the reader has: Mosaic downloads none",
        "tests/store/demos/test_demo_store.py::test_a_minari_dataset_becomes_a_demonstration",
    ),
    "mosaic train gym/CartPole-v1 --worker rllib --algo bc --steps 1000000 "
    "--set training.params.dataset=minari:mine/cartpole-v0": (
        "needs a dataset that the reader has: Mosaic downloads none",
        "tests/workers/rllib/test_rllib_offline.py::test_an_algorithm_learns_and_its_policy_plays",
    ),
    "mosaic train ENV --algo dagger --set training.params.expert=human --demo NAME --name pupil --detach": (
        "waits until a person has played",
        DAGGER,
    ),
    "mosaic play ENV --agent A=human --demo NAME": ("belongs to the run that waits for a person", DAGGER),
    "mosaic train external:5555 --set environment.options.env=classic/tictactoe_v3 --agent player_2=human "
    "--set training.params.n_steps=32 --set environment.num_envs=1": ("waits until a person has played", PERSON),
    "python examples/scripts/play_while_training.py 5555 classic/tictactoe_v3 player_2": (
        "waits for a person's moves",
        PERSON,
    ),
    "mosaic watch evaluate": (
        "needs an evaluation that another terminal plays",
        f"{GAMES}::test_an_evaluation_is_watched_and_a_killed_one_leaves_nothing_after_the_next_start",
    ),
    "mosaic watch latest --source env-runner-2": (
        "needs a run that is still training",
        f"{FRAMES}::test_every_env_runner_is_a_source_also_after_its_restart_and_nothing_is_left_of_a_killed_run",
    ),
    "mosaic watch latest --source 2 --env 3 --picture now.png": (
        "needs a run that is still training",
        f"{FRAMES}::test_envs_in_an_env_runner_and_evaluations_are_seen_and_their_end_too",
    ),
    "mosaic watch latest --env 3 --picture now.png": (
        "needs a run that is still training",
        f"{FRAMES}::test_envs_in_an_env_runner_and_evaluations_are_seen_and_their_end_too",
    ),
    "mosaic runs stop latest": (
        "needs a run that is still training",
        "tests/ui/cli/test_cli_runs.py::test_a_detached_run_is_paused_resumed_saved_and_stopped",
    ),
}
NOT_EXECUTED = {shlex.join(shlex.split(line)): why for line, why in LINES.items()}
MAKEFILE = (ROOT / "Makefile").read_text()


def is_covered(line: str, place: str) -> bool:
    """Return whether a test exists, or whether a job of CI runs the target of make."""
    file, _, test = place.partition("::")
    if not place.startswith("job:"):
        return (ROOT / file).is_file() and bool(re.search(rf"^\s*def {test}\(", (ROOT / file).read_text(), re.M))
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    names = place.removeprefix("job:").split(",")
    run = _targets([jobs[name] for name in names if name in jobs])
    return _is_run(line.removeprefix("make "), frozenset(run))


def _targets(jobs: list[dict[str, list[dict[str, str]]]]) -> set[str]:
    """Return all targets that the jobs run, those of targets too."""
    found: set[str] = set()
    asked = [word for job in jobs for step in job["steps"] for word in step.get("run", "").split()]
    while asked:
        target = asked.pop()
        if target not in found:
            found.add(target)
            asked += _parts(target)
    return found


def _is_run(target: str, run: frozenset[str]) -> bool:
    """Return whether a target is run, or consists of targets that are."""
    if target in run:
        return True
    _, recipe = _rule(target)
    parts = _parts(target)
    return bool(parts) and all("$(MAKE)" in line for line in recipe) and all(_is_run(part, run) for part in parts)


def _parts(target: str) -> list[str]:
    """Return the targets that a target needs, or that it calls make with."""
    needs, recipe = _rule(target)
    words = " ".join([needs, *(line.partition("$(MAKE)")[2] for line in recipe)]).split()
    return [word for word in words if re.search(rf"^{re.escape(word)}:", MAKEFILE, re.M)]


@cache
def _rule(target: str) -> tuple[str, list[str]]:
    """Return what a target needs, and the lines of its recipe."""
    rule = re.search(rf"^{re.escape(target)}:(.*)\n((?:\t.*\n)*)", MAKEFILE, re.M)
    return (rule[1], rule[2].splitlines()) if rule else ("", [])
