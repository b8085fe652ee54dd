"""Fixed opponents for the check of the mapping, which always play 2 in `Duel`: files, a program, a server, a model."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import PolicyID
from mosaic.envs.space_json import space_to_json
from mosaic.store.atomic import write_atomic
from mosaic.store.bundles.manifest import (
    GRAPHS,
    MANIFEST,
    BundledPolicy,
    BundleManifest,
    GraphEntry,
    TrainingSummary,
    manifest_text,
)
from mosaic.store.checkpoint_record import file_entry
from mosaic.testing.duel import CHOICES, CONSTANT, STEPS, Duel, duel

POLICY = "two"


def constant_opponents(folder: Path) -> tuple[PolicyID, ...]:
    """Return policies that always play 2, one for each way to name one; without onnx, the function alone."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return (CONSTANT,)
    folder.mkdir(parents=True, exist_ok=True)
    file, bundle = folder / "two.onnx", folder / "bundle"
    if not file.exists():
        file.write_bytes(_constant_graph())
        _write_bundle(bundle, file.read_bytes(), duel())
    return CONSTANT, f"onnx:{file}", f"bundle:{bundle},engine=onnx"


@contextmanager
def served_opponents(folder: Path) -> Iterator[tuple[PolicyID, ...]]:
    """Yield policies that always play 2 in other processes: a program, a policy server and a language model's endpoint.

    Server and endpoint are stubs that reply as long as the block lasts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "two.py"
    program.write_text(_PROGRAM)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        command = shlex.join([sys.executable, str(program)])
        try:
            yield f"process:{command}", address, f"llm:{POLICY},url={address}/v1,enforce=schema"
        finally:
            server.shutdown()


_PROGRAM = f"""import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["call"] == "get_action":
        print(json.dumps({{"actions": dict.fromkeys(call["observations"], {CHOICES - 1})}}), flush=True)
"""


class _Answering(BaseHTTPRequestHandler):
    """Policy server in JSON, and endpoint of a language model."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self._answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, asked: dict[str, Any]) -> object:
        if "messages" in asked:
            legal = asked["response_format"]["json_schema"]["schema"]["properties"]["action"]["enum"]
            message = {"role": "assistant", "content": json.dumps({"action": legal[CHOICES - 1]})}
            return {"model": asked["model"], "choices": [{"message": message, "finish_reason": "stop"}]}
        match asked["call"]:
            case "start_episode":
                return {"episode_id": POLICY, "remembers": False}
            case "get_action":
                return {"action": dict.fromkeys(asked["observation"], CHOICES - 1)}
        return {}

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _constant_graph() -> bytes:
    """Return a graph that prefers the last action, whichever of the step numbers it is shown as a one-hot row."""
    onnx: Any = import_module("onnx")
    logits = np.zeros((STEPS + 1, CHOICES), np.float32)
    logits[:, -1] = 100.0  # drawn actions are the same
    tensor, helper = onnx.TensorProto.FLOAT, onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "logits"], ["output"])],
        POLICY,
        [helper.make_tensor_value_info("obs", tensor, ["batch", STEPS + 1])],
        [helper.make_tensor_value_info("output", tensor, ["batch", CHOICES])],
        [onnx.numpy_helper.from_array(logits, "logits")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def _write_bundle(folder: Path, graph: bytes, environment: EnvironmentConfig) -> None:
    """Write a bundle of one policy for any agent, whose only file is the graph."""
    file = f"{GRAPHS}/{POLICY}.onnx"
    (folder / GRAPHS).mkdir(parents=True)
    (folder / file).write_bytes(graph)
    spec = Duel().spec
    spaces = {
        agent: {
            "observation": space_to_json(spec.observation_spaces[agent]),
            "action": space_to_json(spec.action_spaces[agent]),
        }
        for agent in spec.possible_agents
    }
    manifest = BundleManifest(
        run=POLICY,
        name=POLICY,
        environment=environment.model_dump(mode="json"),
        spaces=spaces,
        policies={
            POLICY: BundledPolicy(
                agents=("*",),
                worker="none",
                weights=(),
                onnx=(GraphEntry(file=file, agents=spec.possible_agents, parity={}),),
            )
        },
        training=TrainingSummary(env_steps=0),
        versions={},
        files={file: file_entry(folder / file)},
    )
    write_atomic(folder / MANIFEST, manifest_text(manifest))
