"""Controller that asks a language model for every action."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import NamedTuple

from mosaic.core.episode import DecisionReport, Reported, TranscriptLine
from mosaic.core.errors import FormatError, shown
from mosaic.core.ids import AgentID, JsonObject
from mosaic.core.turn import Action, Turn
from mosaic.envs.action_names import legal_names
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import PolicyError, PolicyRequest, PolicyTimeoutError
from mosaic.policies.line_process import Deadline
from mosaic.policies.llm.answer import MODES, Enforcement, chosen_name, instruction, objection_to, question, restriction
from mosaic.policies.llm.endpoint import BusyEndpointError, ChatAnswer, ChatEndpoint, RefusedRequestError

_LOG = logging.getLogger(__name__)
_BUSY_WAIT_S = 1.0  # where an endpoint does not say how long

View = Callable[[EnvSpec, Turn, AgentID], str]


class ModelSettings(NamedTuple):
    """Settings common to all requests, and for handling the replies."""

    request: JsonObject  # model, temperature, most tokens
    enforce: Enforcement | None  # None: the first that the endpoint accepts
    retries: int
    view: View
    price_in: float | None  # per million tokens
    price_out: float | None


class LlmPolicyController:
    """Controller without memory: each question holds one agent's own observation and its legal actions.

    An answer that is not a legal action is sent back at most `retries` times; then the decision fails. No other action
    is ever played in its place.
    """

    def __init__(self, endpoint: ChatEndpoint, settings: ModelSettings, request: PolicyRequest) -> None:
        self._endpoint, self._settings, self._request = endpoint, settings, request
        self._mode: Enforcement | None = settings.enforce
        self._decisions: dict[AgentID, _Decision] = {}  # of the last `act`

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._decisions = {}

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        deadline = Deadline.after(self._request.time_limit_s)
        self._decisions = {}
        return {agent: self._decide(agent, turn.only((agent,)), deadline) for agent in turn.observations}

    def reports(self) -> dict[AgentID, DecisionReport]:
        return {agent: decision.report(self._settings) for agent, decision in self._decisions.items()}

    def close(self) -> None:
        pass

    def _decide(self, agent: AgentID, turn: Turn, deadline: Deadline) -> Action:
        names = legal_names(self._request.spec, turn, agent)
        decision = self._decisions[agent] = _Decision()
        view = self._settings.view(self._request.spec, turn, agent)
        if not isinstance(view, str):
            raise PolicyError(f"has a prompt function that returned {shown(view)} for agent '{agent}', not a text")
        for _ in range(self._settings.retries + 1):
            answer, mode = self._answer(agent, view, names, decision, deadline)
            try:
                name = chosen_name(answer.text, mode, names)
            except FormatError as error:
                decision.refuse(str(error) if answer.finish != "length" else f"{error} (cut at max_tokens)", mode)
                continue
            decision.accept()
            return names[name]
        problem, count = decision.problem, self._settings.retries + 1
        raise PolicyError(
            f"gave no legal action for agent '{agent}' in {count} answer{'s' * (count > 1)}; the last was "
            f"{shown(answer.text)}: {problem}"
        )

    def _answer(
        self, agent: AgentID, view: str, names: Mapping[str, int], decision: _Decision, deadline: Deadline
    ) -> tuple[ChatAnswer, Enforcement]:
        """Ask in the mode that is known to work, or find it: each mode that the endpoint refuses is reported."""
        refused: list[str] = []
        for mode in MODES if self._mode is None else (self._mode,):
            env_id = self._request.spec.env_id
            decision.open(instruction(env_id, agent, mode), question(view, names), mode)
            try:
                answer = self._ask(decision, {**self._settings.request, **restriction(mode, names)}, deadline, agent)
            except RefusedRequestError as error:
                if self._mode is not None or mode == MODES[-1]:
                    raise
                refused.append(f"enforce={mode} {error}")
                continue
            if refused:
                told = "; ".join(refused)
                _LOG.warning("'%s' plays with enforce=%s, because %s.", self._request.reference, mode, told)
            self._mode = mode
            return answer, mode
        raise AssertionError("the last mode returns or raises")

    def _ask(self, decision: _Decision, body: JsonObject, deadline: Deadline, agent: AgentID) -> ChatAnswer:
        """Send the messages so far; wait and repeat where the endpoint is busy, `retries` times at most."""
        body = {**body, "messages": [{"role": line.role, "content": line.text} for line in decision.lines]}
        for attempt in range(self._settings.retries + 1):
            began = monotonic()
            try:
                answer = self._endpoint.ask(body, deadline)
            except BusyEndpointError as error:
                wait_s = _BUSY_WAIT_S if error.retry_after_s is None else error.retry_after_s
                left_s = deadline.left_s()
                if attempt == self._settings.retries:
                    raise PolicyError(f"{error} (asked {attempt + 1} times for agent '{agent}')") from error
                if left_s is not None and wait_s > left_s:
                    raise PolicyTimeoutError(
                        f"{error}; it asks to wait {wait_s:g} s, and {left_s:.3g} s are left for agent '{agent}'"
                    ) from error
                sleep(wait_s)
                continue
            except PolicyTimeoutError as error:
                raise PolicyTimeoutError(f"{error} (agent '{agent}')") from error
            decision.receive(answer, monotonic() - began)
            return answer
        raise AssertionError("the last attempt returns or raises")


class _Decision:
    """Messages and numbers of one decision."""

    def __init__(self) -> None:
        self.lines: list[TranscriptLine] = []
        self.problem = ""
        self._mode: Enforcement = "none"
        self._answers: list[ChatAnswer] = []
        self._seconds: list[float] = []
        self._illegal: list[bool] = []

    def open(self, system: str, user: str, mode: Enforcement) -> None:
        """Start with the first question; a mode that was refused leaves nothing behind."""
        if not self._answers:
            self._mode = mode
            self.lines = [TranscriptLine("system", system), TranscriptLine("user", user)]

    def receive(self, answer: ChatAnswer, seconds: float) -> None:
        self._answers.append(answer)
        self._seconds.append(seconds)
        self._illegal.append(True)  # until it is accepted
        known = answer.tokens_in is not None and answer.tokens_out is not None
        tokens = f"{answer.tokens_in} + {answer.tokens_out} tokens, " if known else ""
        note = f"{tokens}{seconds:.2f} s, enforce={self._mode}"
        self.lines.append(TranscriptLine("assistant", answer.text, note))

    def accept(self) -> None:
        self._illegal[-1] = False

    def refuse(self, problem: str, mode: Enforcement) -> None:
        self.problem = problem
        last = self.lines.pop()
        self.lines += [
            last._replace(note=f"{last.note}, not a legal action"),
            TranscriptLine("user", objection_to(problem, mode)),
        ]

    def report(self, settings: ModelSettings) -> DecisionReport:
        numbers: dict[str, Reported] = {}
        if self._answers:
            numbers |= {"illegal": self._illegal, "retries": len(self._answers) - 1, "latency_s": self._seconds}
            numbers["restricted"] = self._mode != "none"
        into = [answer.tokens_in for answer in self._answers if answer.tokens_in is not None]
        out = [answer.tokens_out for answer in self._answers if answer.tokens_out is not None]
        numbers |= {name: values for name, values in (("tokens_in", into), ("tokens_out", out)) if values}
        prices = settings.price_in, settings.price_out
        if prices != (None, None) and self._answers and len(into) == len(out) == len(self._answers):
            numbers["cost"] = (sum(into) * (prices[0] or 0.0) + sum(out) * (prices[1] or 0.0)) / 1e6
        return DecisionReport(numbers, tuple(self.lines))
