"""MLflow sink: a run of the experiment $MLFLOW_EXPERIMENT_NAME on $MLFLOW_TRACKING_URI, with env_steps as step."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient, get_tracking_uri

from mosaic.core.errors import InputError
from mosaic.telemetry.events.event import MetricEvent, is_number
from mosaic.telemetry.sinks.tracking import PROJECT, TrackedRun, TrackingSink

_RUN_TAG = "mosaic.run_id"
_MOST_PARAMS = 100  # of one request
_LONGEST_VALUE = 500  # of a parameter, in the oldest stores
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")


def open_sink(run_folder: Path) -> TrackingSink:
    return TrackingSink("mlflow", run_folder, MlflowTracker(TrackedRun.read(run_folder)))


class MlflowTracker:
    """Run of MLflow, found again by a tag with the run's id."""

    def __init__(self, run: TrackedRun) -> None:
        self._client = _client()
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
        found = self._client.search_runs([experiment], f"tags.`{_RUN_TAG}` = '{run.run_id}'", max_results=1)
        if found:
            self._id = found[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
        else:
            tags = {_RUN_TAG: run.run_id, **{f"mosaic.tag.{tag}": "true" for tag in run.tags}}
            self._id = self._client.create_run(experiment, tags=tags, run_name=run.name).info.run_id
            params = [Param(_name(key), value[:_LONGEST_VALUE]) for key, value in run.flat_config().items()]
            for start in range(0, len(params), _MOST_PARAMS):
                self._client.log_batch(self._id, params=params[start : start + _MOST_PARAMS])

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:  # another run has created it meanwhile
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def log(self, numbers: dict[str, float], event: MetricEvent, /) -> None:
        steps, at_ms = event.get("env_steps"), int(event["timestamp"] * 1000)
        step = int(steps) if is_number(steps) else 0
        self._client.log_batch(
            self._id, metrics=[Metric(_name(name), value, at_ms, step) for name, value in numbers.items()]
        )

    def finish(self) -> None:
        self._client.set_terminated(self._id)


def _client() -> MlflowClient:
    """Connect to MLflow; its own errors about addresses do not say what the small package accepts."""
    try:
        return MlflowClient()
    except MlflowException as error:
        scheme = get_tracking_uri().partition(":")[0]  # the rest may hold a password
        raise InputError(
            f"MLflow cannot keep runs at an address that begins with '{scheme}:'. Set MLFLOW_TRACKING_URI to a server, "
            "such as http://HOST:5000, or to a folder, file:///PATH, with MLFLOW_ALLOW_FILE_STORE=true. Databases, "
            "which are MLflow's default, need the whole package: pip install mlflow"
        ) from error


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)
