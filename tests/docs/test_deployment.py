"""Files for containers and clusters: they parse, name things that exist, and Ray accepts its own."""

import json
import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.docs.pages import ROOT, commands

DEPLOY = ROOT / "deploy"
LAUNCHERS = sorted(DEPLOY.glob("ray-*.yaml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text())


def ray_schema():
    pytest.importorskip("ray")
    return json.loads(Path(find_spec("ray").origin).with_name("autoscaler").joinpath("ray-schema.json").read_text())


def extras_in(text):
    return {extra for found in re.findall(r"(?:\.|mosaic)\[([a-z,0-9-]+)\]", text) for extra in found.split(",")}


@pytest.mark.parametrize("path", LAUNCHERS, ids=lambda path: path.stem)
def test_launcher_files_are_accepted_by_rays_schema(path):
    document = read(path.name)
    jsonschema.validate(document, ray_schema())
    kinds = document["available_node_types"]
    assert document["head_node_type"] in kinds
    assert document["max_workers"] == sum(kind.get("max_workers", 0) for kind in kinds.values())
    copied = ROOT / document["file_mounts"]["/home/ubuntu/mosaic"]  # the launcher is started in the repository's root
    assert copied.resolve() == ROOT
    ports = {command for command in document["head_start_ray_commands"] if "--port=6379" in command}
    assert ports
    assert any("$RAY_HEAD_IP:6379" in command for command in document["worker_start_ray_commands"])


@pytest.mark.parametrize("path", LAUNCHERS, ids=lambda path: path.stem)
def test_launcher_files_name_an_image_with_a_python_that_mosaic_supports(path):
    """Ray's default image for AWS is Ubuntu 18.04; Ubuntu 24.04 has Python 3.12 and, without python3-venv, no venv."""
    lines, document = path.read_text().splitlines(), read(path.name)
    for kind in document["available_node_types"].values():
        settings = kind["node_config"]
        disks = settings.get("disks", [{}])
        image = settings.get("ImageId") or disks[0].get("initializeParams", {}).get("sourceImage", "")
        (named,) = [line for line in lines if image in line] if image else [""]
        assert "Ubuntu 24.04" in named or "ubuntu-2404-lts" in named
    setup = document["setup_commands"]
    installs = next(i for i, line in enumerate(setup) if "install -y -q python3-venv" in line)
    assert installs < setup.index("python3 -m venv /home/ubuntu/venv")
    assert document["head_setup_commands"], "Ray's default installs into another Python"


def test_the_schema_refuses_what_is_wrong():
    document = read(LAUNCHERS[0].name) | {"max_workers": "two"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, ray_schema())


def test_compose_has_a_head_and_two_workers_with_a_token():
    document = read("compose.yaml")
    services = document["services"]
    assert set(services) == {"head", "worker-1", "worker-2"}
    for name, service in services.items():
        assert service["environment"]["RAY_AUTH_MODE"] == "token"
        assert service["environment"]["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?")
        assert "ports" not in service
        assert (service["image"], service["platform"]) == ("mosaic-rl", "linux/amd64")
        words = shlex.split(service["command"])
        assert words[:2] == ["ray", "start"]
        assert "--block" in words
        if name != "head":
            assert "--address=head:6379" in words
            assert service["depends_on"] == {"head": {"condition": "service_healthy"}}
    build = services["head"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    assert [name for name, service in services.items() if "build" in service] == ["head"], "two would make one image"
    assert {volume.split(":")[0] for volume in services["head"]["volumes"]} == set(document["volumes"])


def test_ray_takes_the_options_of_the_files():
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    lines = [service["command"] for service in read("compose.yaml")["services"].values()]
    lines += [
        line
        for path in LAUNCHERS
        for key in ("head", "worker")
        for line in read(path.name)[f"{key}_start_ray_commands"]
    ]
    used = {
        word.partition("=")[0]
        for line in lines
        if " start " in line
        for word in shlex.split(line)
        if word.startswith("--")
    }
    assert len(used) >= 5
    assert used <= known


def test_kuberay_values_fit_together():
    values = read("kuberay-values.yaml")
    assert (
        values["head"]["rayVersion"]
        == next(
            need for need in PROJECT["optional-dependencies"]["rllib"] if "ray" in need and "==" in need
        ).rpartition("==")[2]
    )
    assert values["worker"]["replicas"] == 2
    names = {each["name"]: each for each in values["common"]["containerEnv"]}
    assert names["RAY_AUTH_MODE"]["value"] == "token"
    assert names["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] in (DEPLOY / "README.md").read_text()
    assert {mount["name"] for mount in values["head"]["volumeMounts"]} == {
        volume["name"] for volume in values["head"]["volumes"]
    }
    claim = read("kuberay-store.yaml")
    assert claim["kind"] == "PersistentVolumeClaim"
    (volume,) = values["head"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_kuberays_probes_find_what_they_ask():
    """Without ray[default] no agent listens, and older versions of KubeRay call wget: no pod would become ready."""
    image = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    (packages,) = (line for line in image if "apt-get install" in line)
    (installed,) = (line for line in image if line.startswith("RUN pip install"))
    assert "wget" in packages.split()
    assert "ray[default]" in shlex.split(installed)
    values = read("kuberay-values.yaml")
    assert values["head"]["rayStartParams"].get("include-dashboard", "true") == "true"


def test_the_steps_for_kuberay_are_complete_and_in_order():
    text, lines = (DEPLOY / "README.md").read_text(), commands(DEPLOY / "README.md")
    starts = (
        "helm repo add kuberay ",
        "helm install kuberay-operator ",
        "kubectl apply -f deploy/kuberay-store.yaml",
        "kubectl create secret generic mosaic-ray-token ",
        "helm install mosaic kuberay/ray-cluster ",
    )
    found = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert found == sorted(found)
    assert "docker push REGISTRY/mosaic-rl" in text.partition(starts[0])[0]
    assert "--set image.repository=REGISTRY/mosaic-rl" in lines[found[-1]]


def test_the_image_copies_and_installs_what_exists():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {step[0] for step in steps} <= {"FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER", "VOLUME", "CMD"}
    assert steps[0][0] == "FROM"
    for kind, words in steps:
        if kind == "COPY":
            assert all((ROOT / word).exists() for word in words.split()[:-1])
    ignored, *lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    copied = {word.removeprefix("./") for kind, words in steps if kind == "COPY" for word in words.split()[:-1]}
    assert ignored == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    assert json.loads(steps[-1][1])[0] == "mosaic"
    assert "USER mosaic" in text


def test_extras_that_the_files_name_exist():
    text = "".join(path.read_text() for path in DEPLOY.iterdir())
    assert {"rllib", "gym"} <= extras_in(text) <= set(PROJECT["optional-dependencies"])


def test_the_development_container_uses_targets_that_exist():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    make, target = container["postCreateCommand"].split()
    assert make == "make"
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)
    assert container["forwardPorts"] == [8642]


def test_commands_of_the_read_me_name_files_that_exist():
    named = {
        word for line in commands(DEPLOY / "README.md") for word in shlex.split(line) if word.startswith("deploy/")
    }
    assert len(named) >= 3
    assert [name for name in named if not (ROOT / name).exists()] == []
