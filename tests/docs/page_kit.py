"""What a page of the documentation takes for granted: servers, files, models and services."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.docs.pages import ROOT
from tests.exports.hub.hub_stub import HubStub
from tests.policies.llm.stub import completion, endpoint, first_legal

SERVERS = ("mosaic serve", "mosaic policy-server", "mosaic mcp --http")
MODELS_ADDRESSES = ("http://127.0.0.1:11434/v1", "https://api.openai.com/v1", "http://127.0.0.1:8080/v1")


class Beside:
    """Programs that run beside the commands of a page until its end, and the addresses they really have."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.addresses: dict[str, str] = {}

    def replaced(self, line: str) -> str:
        """Return a command with the addresses that the page's servers have here."""
        for written, real in self.addresses.items():
            line = line.replace(written, real)
        return line

    def start_server(self, line: str) -> None:
        """Start a server on a port of its own, and wait until it says its address."""
        words = shlex.split(line)[1:]
        written = words[words.index("--port") + 1] if "--port" in words else ""
        if written:
            words[words.index("--port") + 1] = "0"
        else:
            words += ["--port", "0"]
        process = self._start([sys.executable, "-m", "mosaic", *words])
        assert process.stdout is not None
        said = []
        for text in process.stdout:
            said.append(text)
            if "http://" in text:
                break
        assert said, f"{line}: it ended without a word"
        assert "http://" in said[-1], f"{line}\n{''.join(said)}"
        address = next(word for word in said[-1].split() if word.startswith("http://")).rstrip(".,")
        if words[0] == "serve":
            self.addresses |= {"http://127.0.0.1:8642": address, "http://HOST:PORT": address}
        elif written:
            self.addresses |= {f"http://{host}:{written}": address for host in ("127.0.0.1", "gpu-box")}

    def start_external_run(self, line: str) -> subprocess.Popen[str]:
        """Start a run that listens at a free port in place of the page's."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.addresses["5555"] = str(found.getsockname()[1])
        words = [*shlex.split(self.replaced(line))[1:], "--steps", "1200"]
        return self._start([sys.executable, "-m", "mosaic", *words])

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._stack.callback(_end, process)
        return process

    def start_models(self) -> None:
        """Let an endpoint of the tests answer in place of language models: each with its first legal action."""
        models = self._stack.enter_context(endpoint(lambda body: completion(first_legal(body), body["model"])))
        self.addresses |= dict.fromkeys(MODELS_ADDRESSES, models.url)

    def start_hub(self) -> dict[str, str]:
        """Start a hub in place of Hugging Face's, and return the variables that name it."""
        hub = self._stack.enter_context(HubStub())
        return {"HF_ENDPOINT": hub.url, "HF_TOKEN": hub.state.token}


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def prepare(text: str) -> None:
    """Write the files that a page shows or names."""
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("__pycache__"))
    if "my_envs:Corridor" in text:
        Path("my_envs.py").write_text(text.partition("```python\n")[2].partition("```")[0])
    if "process:python bot.py" in text:
        shutil.copy(ROOT / "examples/scripts/process_bot.py", "bot.py")
        Path("bot").write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} bot.py\n")
        os.chmod("bot", 0o755)
    if "model.zip" in text:
        _write_zips()
    if "checkpoint_000004" in text:  # in a process of its own: after Ray without a token, Ray with one does not start
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-c", f"from {__name__} import write_rllib_checkpoints as w; w()"]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path, "RAY_ADDRESS": "local"}, check=True)


def _write_zips() -> None:
    from sb3_contrib import TQC
    from stable_baselines3 import PPO

    cart = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    pendulum = TQC("MlpPolicy", "Pendulum-v1", device="cpu", buffer_size=10)
    Path("logs/ppo/CartPole-v1_3").mkdir(parents=True)
    cart.save("logs/ppo/CartPole-v1_3/best_model.zip")
    cart.save("model.zip")
    pendulum.save("pendulum.zip")


def write_rllib_checkpoints() -> None:
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from mosaic import make_env
    from tests.workers.rllib.checkpoint.foreign_makers import save_ppo

    for folder in ("results", "ray_results/PPO_cart"):
        save_ppo(Path(folder, "checkpoint_000004").absolute())
    env = make_env("mpe/simple_tag_v3")
    hunter = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=env.spec.observation_spaces["adversary_0"],
        action_space=env.spec.action_spaces["adversary_0"],
        model_config={"fcnet_hiddens": [8]},
    )
    env.close()
    MultiRLModuleSpec(rl_module_specs={"hunters": hunter}).build().save_to_path(Path("saved").absolute())
