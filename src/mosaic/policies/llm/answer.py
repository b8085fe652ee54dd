"""Questions to a language model, the restriction of its answers to legal actions, and the reading of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Literal, TypeAlias

from mosaic.core.errors import FormatError, did_you_mean, shown
from mosaic.core.ids import AgentID, EnvID, JsonObject

Enforcement: TypeAlias = Literal["schema", "grammar", "none"]
MODES: tuple[Enforcement, ...] = ("schema", "grammar", "none")  # in the order in which `auto` tries them
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)  # at the start of answers of models that think aloud
_MOST_NAMED = 40  # legal actions in a message
_FORMATS: dict[Enforcement, str] = {
    "schema": 'Answer with a JSON object and nothing else: {"action": "NAME"}, where NAME is a legal action.',
    "none": 'Answer with a JSON object and nothing else: {"action": "NAME"}, where NAME is a legal action.',
    "grammar": "Answer with the name of a legal action and nothing else.",
}


def instruction(env_id: EnvID, agent: AgentID, mode: Enforcement) -> str:
    return f"You are the agent '{agent}' in the environment {env_id}. Choose the best legal action. {_FORMATS[mode]}"


def question(view: str, names: Collection[str]) -> str:
    return f"{view}\n\nLegal actions: {', '.join(names)}"


def objection_to(problem: str, mode: Enforcement) -> str:
    """Return the message with which an answer is sent back."""
    return f"That is not a legal action: {problem}. {_FORMATS[mode]}"


def restriction(mode: Enforcement, names: Collection[str]) -> JsonObject:
    """Return the fields of a request that leave the model no other answers."""
    match mode:
        case "schema":
            action: JsonObject = {"type": "string", "enum": list(names)}
            schema: JsonObject = {
                "type": "object",
                "properties": {"action": action},
                "required": ["action"],
                "additionalProperties": False,
            }
            form: JsonObject = {"name": "action", "strict": True, "schema": schema}
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        case "grammar":
            # JSON escapes the characters that llama.cpp's grammars escape
            return {"grammar": "root ::= " + " | ".join(json.dumps(name, ensure_ascii=False) for name in names)}
        case "none":
            return {}


def chosen_name(text: str, mode: Enforcement, names: Collection[str]) -> str:
    """Return the action that the answer names; raise FormatError for anything but exactly one legal name."""
    thought = _THOUGHT.match(text)
    said = text[thought.end() if thought else 0 :].strip()
    name = said if mode == "grammar" else _action(said)
    if name not in names:
        listed = ", ".join(list(names)[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
        raise FormatError(f"{shown(name)} is not one of {listed}.{did_you_mean(name, names)}".rstrip("."))
    return name


def _action(said: str) -> str:
    try:
        document = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{shown(said)} is not JSON ({error})") from error
    if not isinstance(document, dict) or document.keys() != {"action"} or not isinstance(document["action"], str):
        raise FormatError(f'{shown(said)}, where {{"action": "NAME"}} belongs')
    return document["action"]
