"""Policy in another program, in any language: `process:COMMAND` exchanges lines of JSON with it."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from mosaic.core.errors import FormatError, InputError, shown
from mosaic.core.ids import AgentID, JsonObject
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.space_json import spec_spaces
from mosaic.envs.space_values import value_from_json, value_to_json
from mosaic.envs.spaces import objection
from mosaic.policies.controller import PolicyError, PolicyKind, PolicyRequest
from mosaic.policies.line_process import Deadline, LineProcess

PROTOCOL = 1


class ProcessOptions(Options):
    command: str = Field(description="Program and its arguments, as typed in a shell.")
    folder: str | None = Field(None, description="Folder to start it in; default: the current one.")


class ProcessPolicyController:
    """Controller whose program runs from the first episode until `close` or a failure; several agents share it."""

    def __init__(self, command: list[str], folder: Path | None, request: PolicyRequest) -> None:
        self._command, self._folder, self._request = command, folder, request
        self._process: LineProcess | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        if self._process is None:
            self._process = LineProcess(self._command, self._folder, errors_apart=True)
        spec = self._request.spec
        start: JsonObject = {"protocol": PROTOCOL, "env": spec.env_id, "agents": list(agents), "seed": seed}
        start["spaces"] = dict(spec_spaces(spec, agents))
        self._send(self._process, "start_episode", start, self._deadline())

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        if self._process is None:
            raise PolicyError(f"'{self._request.reference}': its program has ended; start an episode first.")
        deadline = self._deadline()
        self._send(self._process, "get_action", _seen(turn), deadline)
        try:
            return self._actions(turn, self._process.read_line(deadline))
        except FormatError as error:
            failure = self._process.failure(f"replied with something that is not an action: {error}.")
            self.close()
            raise failure from error
        except BaseException:
            self.close()
            raise

    def forget(self, agent: AgentID) -> None:
        if self._process is not None:
            self._send(self._process, "forget", {"agent": agent}, self._deadline())

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _deadline(self) -> Deadline:
        return Deadline.after(self._request.time_limit_s)

    def _send(self, process: LineProcess, call: str, fields: JsonObject, deadline: Deadline) -> None:
        try:
            process.send(json.dumps({"call": call, **fields}), deadline)
        except BaseException:
            self.close()
            raise

    def _actions(self, turn: Turn, line: str) -> dict[AgentID, Action]:
        answer = _parse(line)
        if "error" in answer:
            raise FormatError(f"it reports the error {shown(answer['error'])}")
        given = answer.get("actions")
        if not isinstance(given, dict) or given.keys() != turn.observations.keys():
            example = json.dumps({"actions": dict.fromkeys(turn.observations, "…")}, ensure_ascii=False)
            raise FormatError(f"{shown(line)}, where {example} belongs")
        return {agent: self._action(agent, given[agent], turn) for agent in turn.observations}

    def _action(self, agent: AgentID, given: object, turn: Turn) -> Action:
        space = self._request.spec.action_spaces[agent]
        action = value_from_json(space, given, f"actions.{agent}")
        problem = objection(space)(action, turn.action_masks.get(agent))
        if problem is not None:
            raise FormatError(f"actions.{agent}: {problem}")
        return action


def _seen(turn: Turn) -> JsonObject:
    return {
        "observations": {agent: value_to_json(seen) for agent, seen in turn.observations.items()},
        "action_masks": {agent: value_to_json(mask) for agent, mask in turn.action_masks.items()},
        "rewards": {agent: float(reward) for agent, reward in turn.rewards.items()},
        "infos": {agent: _expressible(info) for agent, info in turn.infos.items()},
    }


def _expressible(info: Mapping[str, object]) -> JsonObject:
    """Return the entries that JSON can express; envs put objects of their own there too."""
    found: JsonObject = {}
    for name, value in info.items():
        try:
            found[name] = value_to_json(value)
        except FormatError:
            continue
    return found


def _parse(line: str) -> JsonObject:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{shown(line)} is not JSON ({error})") from error
    if not isinstance(answer, dict):
        raise FormatError(f"{shown(line)} is not a JSON object")
    return answer


def _make(options: ProcessOptions, request: PolicyRequest) -> ProcessPolicyController:
    folder = None if options.folder is None else Path(options.folder).expanduser()
    if folder is not None and not folder.is_dir():
        raise InputError(f"'{request.reference}': there is no folder '{folder}'.")
    return ProcessPolicyController(_command(options.command, folder, request.reference), folder, request)


def _command(text: str, folder: Path | None, reference: str) -> list[str]:
    try:
        program, *arguments = shlex.split(text)
    except ValueError as error:
        raise InputError(f"'{reference}' is not a command: {error}.") from error
    is_path = "/" in program
    named = str((folder or Path.cwd()) / Path(program).expanduser()) if is_path else program
    found = shutil.which(named)
    if found is None:
        path = "" if is_path else f"Name a file with its path (./{program}). "
        raise InputError(
            f"'{reference}': there is no program '{named}' that can be run. {path}A file must be executable "
            "(chmod +x) or come after its interpreter (python bot.py)."
        )
    return [str(Path(found).absolute()), *arguments]


def _never(options: object) -> bool:
    return False  # the program gets the seed, but may ignore it


kind = PolicyKind(
    usage="process:COMMAND[,folder=PATH]",
    help="Any program that reads and writes lines of JSON (docs/external.md).",
    make=_make,
    options=ProcessOptions,
    first="command",
    reproducible=_never,
)
