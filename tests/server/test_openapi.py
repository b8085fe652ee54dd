"""Whatever is sent along the lines of the OpenAPI document, or against them: the server never fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from mosaic.runs.trainer import Trainer
from mosaic.server.auth.token import ensure_token
from tests.server.server_kit import NOTHING_STARTS, ServerProcess, toy

pytestmark = pytest.mark.slow


NOT_EVEN_HTTP = "Invalid HTTP request received."  # uvicorn's own words
NEEDS_A_LIVING_RUN = {f"POST /runs/{{ref}}/{verb}" for verb in ("pause", "resume", "checkpoint")}
SELDOM_RIGHT = {"POST /runs", "PATCH /runs/{ref}"}  # among a few examples, no body that fits


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("openapi") / "home", limits=NOTHING_STARTS) as process:
        yield process


@pytest.fixture(scope="module")
def session(server: ServerProcess) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {ensure_token(server.home)}"
        yield session


def hammer(server: ServerProcess, session: requests.Session, examples: int) -> dict[str, set[int]]:
    """Every operation with arguments that fit the document and with some that do not; the statuses that came."""
    schema = schemathesis.openapi.from_dict(session.get(f"{server.url}/openapi.json").json())
    seen: dict[str, set[int]] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        Trainer(server.home).submit(toy(), start=False)
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            seen.setdefault(operation.label, set()).update(attack(operation, mode, server.url, session, examples))
    return seen


def attack(operation: Any, mode: GenerationMode, url: str, session: requests.Session, examples: int) -> set[int]:
    seen: set[int] = set()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def send(case: Any, names_what_exists: bool) -> None:
        if names_what_exists:
            make_real(case)
        token = {"Authorization": session.headers["Authorization"]}  # else a wrong one would be the only thing tried
        answer = case.call(base_url=url, session=session, headers=token)
        seen.add(answer.status_code)
        assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text}"
        if answer.status_code >= 400 and answer.text != NOT_EVEN_HTTP:
            assert next(iter(answer.json())) == "error"

    send()
    return seen


def make_real(case: Any) -> None:
    """By chance alone no request would name a run or a worker that exists."""
    real = {"ref": "latest", "worker": "toy", "algorithm": "walk"}
    for name in real.keys() & (case.path_parameters or {}).keys():
        case.path_parameters[name] = real[name]
    if isinstance(case.body, dict) and "environment" in case.body:
        case.body = {**toy(), **{key: case.body[key] for key in ("seed", "name", "tags") if key in case.body}}


NOBODY_BEGAN = (  # or nobody would by chance: a whole request must fit together
    "{match_id}",
    "{examination_id}",
    "{replay_id}",
    "/replays",
    "/episodes/{name}",
    "/projects/{name}",
    "/demos/{name}",
    "/files/config",
    "/exports/{ref}",
    "/searches/{ref}",
    "POST /exports",
    "POST /matches",
    "POST /evaluate",
    "POST /tournament",
    "POST /policy/",
    "/runs/{ref}/policy",
)


@pytest.mark.parametrize("examples", [pytest.param(4, marks=pytest.mark.chosen), 30])
def test_no_request_makes_the_server_fail(server: ServerProcess, session: requests.Session, examples: int) -> None:
    seen = hammer(server, session, examples)
    assert len(seen) >= 18
    refused = {label for label, statuses in seen.items() if min(statuses) >= 300}
    expected = NEEDS_A_LIVING_RUN | (SELDOM_RIGHT if examples < 8 else set())
    assert {label for label in refused if not any(name in label for name in NOBODY_BEGAN)} <= expected
    assert 404 in seen["GET /runs/{ref}"]
    assert {run.state for run in Trainer(server.home).summaries()} <= {"queued", "stopped"}
