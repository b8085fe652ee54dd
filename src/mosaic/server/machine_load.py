"""Load of this machine: cores, memory, and GPUs where the driver's tool is installed."""

from __future__ import annotations

import subprocess
from time import monotonic

import psutil

from mosaic.core.machine import GPU_TABLE, has_gpu_tool, parse_gpus
from mosaic.server.schemas import ResponseModel

_WITHIN_S = 5.0
_GPUS_FRESH_S = 5.0  # the tool takes a good part of a second


class GpuLoad(ResponseModel):
    name: str
    busy: float  # percent
    used_gb: float
    memory_gb: float


class MachineLoad(ResponseModel):
    cpu: float  # percent of all cores
    used_gb: float
    memory_gb: float
    gpus: tuple[GpuLoad, ...] = ()


class MachineMeter:
    """Meter of the load since the last reading."""

    def __init__(self, *, gpus: bool = True) -> None:
        """Read the GPUs too, which waits for the driver's tool, unless `gpus` is False."""
        psutil.cpu_percent()  # the first call always returns 0
        self._gpus: tuple[GpuLoad, ...] = ()
        self._fresh_until_s = float("-inf" if gpus else "inf")

    def read(self) -> MachineLoad:
        memory = psutil.virtual_memory()
        now_s = monotonic()
        if now_s >= self._fresh_until_s:
            self._gpus, self._fresh_until_s = read_gpus(), now_s + _GPUS_FRESH_S
        used = (memory.total - memory.available) / 1e9
        return MachineLoad(cpu=psutil.cpu_percent(), used_gb=used, memory_gb=memory.total / 1e9, gpus=self._gpus)


def read_gpus() -> tuple[GpuLoad, ...]:
    """Return the load of each GPU; none where the tool is missing or the driver does not respond."""
    if not has_gpu_tool():
        return ()
    try:
        done = subprocess.run(GPU_TABLE, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        return ()
    found = parse_gpus(done.stdout) if done.returncode == 0 else ()
    return tuple(GpuLoad(**gpu._asdict()) for gpu in found)
