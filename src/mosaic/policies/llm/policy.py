"""Kind of policy `llm`: a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import inspect
import re
from typing import Literal
from urllib.parse import urlsplit

from gymnasium.spaces import Discrete
from pydantic import Field, field_validator

from mosaic.core.errors import InputError
from mosaic.core.ids import JsonObject
from mosaic.core.reference import Options
from mosaic.core.user_code import PREFIX, load_code
from mosaic.envs.spaces import describe_space
from mosaic.envs.text.view import text_view
from mosaic.policies.controller import PolicyKind, PolicyRequest
from mosaic.policies.llm.answer import Enforcement
from mosaic.policies.llm.controller import LlmPolicyController, ModelSettings, View
from mosaic.policies.llm.endpoint import ChatEndpoint

_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")


class LlmOptions(Options):
    model: str = Field(min_length=1, description="Name of the model, as the endpoint knows it.")
    url: str = Field(description="Address of the endpoint, up to /v1: http://127.0.0.1:8080/v1.")
    enforce: Literal["auto", "schema", "grammar", "none"] = Field(
        "auto",
        description="How answers are restricted to legal actions: a JSON schema (response_format), a grammar "
        "(llama.cpp's), or not at all; auto takes the first that the endpoint accepts, and says which.",
    )
    retries: int = Field(2, ge=0, le=100, description="How often an answer that is not a legal action is sent back.")
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False, description="Default: the endpoint's.")
    max_tokens: int = Field(512, ge=1, description="Most tokens of an answer.")
    prompt: str | None = Field(
        None, description="Your own text of an observation: python:MODULE:NAME of f(spec, turn, agent) -> str."
    )
    price_in: float | None = Field(None, ge=0, allow_inf_nan=False, description="Price of a million prompt tokens.")
    price_out: float | None = Field(None, ge=0, allow_inf_nan=False, description="Price of a million answer tokens.")
    key_env: str | None = Field(
        None, description="Environment variable that holds the key; default: MOSAIC_LLM_API_KEY, if it is set."
    )

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("it should be http:// or https://, a host and a path, without ? and #")
        return url

    @field_validator("key_env")
    @classmethod
    def _names_a_key(cls, name: str | None) -> str | None:
        if name is not None and not _KEY_NAME.fullmatch(name):
            raise ValueError("it should be the name of a variable that ends with _API_KEY")
        return name

    @field_validator("prompt")
    @classmethod
    def _is_code(cls, prompt: str | None) -> str | None:
        if prompt is not None and not prompt.startswith(PREFIX):
            raise ValueError("it should be python:MODULE:NAME")
        return prompt


def _make(options: LlmOptions, request: PolicyRequest) -> LlmPolicyController:
    _check_actions(request)
    endpoint = ChatEndpoint(options.url, options.key_env)
    # OpenAI's newer models refuse the older name, which is the only one that other endpoints know.
    limit = "max_completion_tokens" if endpoint.host == "api.openai.com" else "max_tokens"
    asked: JsonObject = {"model": options.model, limit: options.max_tokens}
    if options.temperature is not None:
        asked["temperature"] = options.temperature
    mode: Enforcement | None = None if options.enforce == "auto" else options.enforce
    view = text_view if options.prompt is None else _own_view(options.prompt, request.reference)
    settings = ModelSettings(asked, mode, options.retries, view, options.price_in, options.price_out)
    return LlmPolicyController(endpoint, settings, request)


def _check_actions(request: PolicyRequest) -> None:
    for agent in request.agents:
        space = request.spec.action_spaces.get(agent)
        if space is not None and not isinstance(space, Discrete):
            raise InputError(
                f"'{request.reference}' chooses among named actions, and those of {agent} in {request.spec.env_id} "
                f"are {describe_space(space)}. Others can give them: process:COMMAND, python:MODULE:NAME."
            )


def _own_view(prompt: str, reference: str) -> View:
    code = load_code(prompt)
    try:
        inspect.signature(code).bind("spec", "turn", "agent")
    except TypeError as error:
        raise InputError(f"'{reference}': {prompt} is not a function f(spec, turn, agent) -> str: {error}.") from error
    view: View = code
    return view


def _notes(options: LlmOptions, request: PolicyRequest) -> tuple[str, ...]:
    _check_actions(request)
    return ()


def _never(options: object) -> bool:
    return False  # even at temperature 0 endpoints may answer differently


kind = PolicyKind(
    usage="llm:MODEL,url=ADDRESS[,enforce=schema][,retries=2][,prompt=python:MODULE:NAME]",
    help="Language model behind an OpenAI-compatible endpoint (docs/llm.md).",
    make=_make,
    options=LlmOptions,
    first="model",
    reproducible=_never,
    notes=_notes,
)
