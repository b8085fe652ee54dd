"""A game in Python that speaks the protocol of Godot RL Agents, with faults to plant.

`python fake_game.py --port=11008 [--fault=NAME] [--after=STEPS] …` plays like an exported game: it connects, and ends
when the other side closes. The first agent's life lasts `--length` steps, that of each further one a step longer.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import time

OBSERVATION = {"obs": {"size": [3], "space": "box"}}
ACTION = {"move": {"size": 2, "action_type": "continuous"}, "jump": {"size": 3, "action_type": "discrete"}}


class FakeGame:
    def __init__(self, arguments: dict[str, str]) -> None:
        self.fault, self.after = arguments.get("fault", ""), int(arguments.get("after", "3"))
        self.names = arguments.get("names", "runner,runner,guard").split(",")
        self.length = int(arguments.get("length", "5"))  # steps of the first agent's life; the next ones live longer
        self.old = "old" in arguments
        self.camera = "camera" in arguments
        self.kind = arguments.get("actions", "mixed")
        self.steps = self.greetings = 0
        self.random = random.Random(int(arguments.get("env_seed", "1")))
        self.ages = [0] * len(self.names)
        self.actions: list[dict[str, object]] = []

    def env_info(self) -> dict[str, object]:
        observation = {**OBSERVATION, **({"camera_2d": {"size": [8, 8, 3], "space": "box"}} if self.camera else {})}
        wanted = {"mixed": ("move", "jump"), "continuous": ("move",), "discrete": ("jump",)}[self.kind]
        action = {key: ACTION[key] for key in wanted}
        if self.old:
            return {"observation_space": observation, "action_space": action, "n_agents": len(self.names)}
        count = len(self.names)
        info = {"n_agents": count, "observation_space": [observation] * count, "action_space": [action] * count}
        info |= {"agent_policy_names": self.names, "seeded_reset": self.fault != "unseeded"}
        match self.fault:
            case "version":
                info["major_version"] = "1"
            case "no_spaces":
                del info["observation_space"]
            case "name":
                info["agent_policy_names"] = ["../etc", *self.names[1:]]
            case "no_agents":
                info["n_agents"] = 0
        return info

    def observe(self, number: int) -> dict[str, object]:
        seen = [self.ages[number] / (self.length + number), self.random.uniform(-1, 1), number / 10]
        if self.planted("size"):
            seen = seen[:2]
        if self.planted("nan"):
            seen[1] = float("nan")
        picture = {"camera_2d": bytes([self.ages[number]] * 192).hex()} if self.camera else {}
        return {"obs": seen, **picture}

    def planted(self, fault: str) -> bool:
        return self.fault == fault and self.steps >= self.after

    def reset(self, seed: int | None) -> dict[str, object]:
        if seed is not None:
            self.random = random.Random(seed)
        self.ages = [0] * len(self.names)
        everyone = range(len(self.names))
        return {"type": "reset", "obs": [self.observe(i) for i in everyone], "info": [{} for _ in everyone]}

    def step(self, actions: list[dict[str, object]]) -> dict[str, object]:
        self.steps += 1
        self.actions = actions
        everyone = range(len(self.names))
        self.ages = [age + 1 for age in self.ages]
        done = [self.ages[i] >= self.length + i for i in everyone]
        info: list[dict[str, object]] = [{"age": self.ages[i]} for i in everyone]
        if self.fault == "truncated":
            info[0]["truncated"] = done[0]
        if self.fault == "final" and done[0]:
            info[0]["final_observation"] = {"obs": [0.5, 0.25, 0.125]}
        self.ages = [0 if done[i] else self.ages[i] for i in everyone]  # agents reset themselves
        reward: list[object] = [1.0 + i for i in everyone]
        obs = [self.observe(i) for i in everyone]
        if self.planted("reward"):
            reward[0] = "much"
        if self.planted("fewer"):
            obs = obs[:-1]
        step = {"type": "step", "obs": obs, "reward": reward, "done": done}
        return step if self.old else {**step, "info": info}

    def answer(self, message: dict[str, object]) -> dict[str, object] | None:
        match message["type"]:
            case "handshake":
                self.greetings += 1
                return None
            case "env_info":
                assert self.greetings == 1, "the plug-in answers this once, when it begins"
                return {"type": "env_info", **self.env_info()}
            case "reset":
                return self.reset(message.get("seed"))
            case "action":
                return self.step(message["action"])
            case "call":
                return {"type": "call", "returns": [message["method"]] * len(self.names)}
            case "close":
                if self.fault == "stay":
                    print("told to close", flush=True)
                    time.sleep(3600)
                raise SystemExit(0)
        raise AssertionError(f"an unknown message: {message}")

    def play(self, connection: socket.socket) -> None:
        while True:
            message = receive(connection)
            if message is None:
                return
            answer = self.answer(message)
            if answer is None:
                continue
            if self.planted("leave"):
                return
            if self.planted("die"):
                print("something went wrong in the game", flush=True)
                os._exit(7)
            if self.planted("hang"):
                time.sleep(3600)
            if self.planted("shout"):
                print("x" * 300_000, flush=True)
            if self.planted("garbage"):
                connection.sendall(struct.pack("<I", 5) + b"hello")
            elif self.planted("giant"):
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            elif self.planted("half"):
                connection.sendall(struct.pack("<I", 1000) + b"{")
                connection.shutdown(socket.SHUT_WR)
            else:
                connection.sendall(framed(answer))


def framed(message: object) -> bytes:
    payload = json.dumps(message).replace("NaN", "nan").encode()  # as Godot writes it
    return struct.pack("<I", len(payload)) + payload


def receive(connection: socket.socket) -> dict[str, object] | None:
    header = exactly(connection, 4)
    return None if header is None else json.loads(exactly(connection, struct.unpack("<I", header)[0]) or b"null")


def exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def main(given: list[str]) -> None:
    arguments = dict(each.removeprefix("--").partition("=")[::2] for each in given)
    print("fake game", " ".join(given), flush=True)
    if "say_pid" in arguments:
        with open(arguments["say_pid"], "a") as file:
            file.write(f"{os.getpid()}\n")
    if arguments.get("fault") == "no_start":
        sys.exit("the game cannot find its data")
    if arguments.get("fault") == "no_connection":
        time.sleep(3600)
    with socket.create_connection(("127.0.0.1", int(arguments.get("port", "11008")))) as connection:
        FakeGame(arguments).play(connection)


if __name__ == "__main__":
    main(sys.argv[1:])
