"""Load of the machine."""

from mosaic.core.machine import parse_gpus
from mosaic.server.machine_load import MachineMeter


def test_the_tools_table_of_gpus():
    first, second = parse_gpus("NVIDIA H200, 37, 1024, 143771\nOld, with comma, [N/A], [N/A], 2048\n")
    assert (first.name, first.busy, round(first.used_gb, 2)) == ("NVIDIA H200", 37.0, 1.07)
    assert (second.name, second.busy, round(second.memory_gb, 2)) == ("Old, with comma", 0.0, 2.15)
    assert parse_gpus("") == ()


def test_a_meter_without_gpus_reads_cores_and_memory():
    load = MachineMeter(gpus=False).read()
    assert 0 <= load.cpu <= 100
    assert 0 < load.used_gb < load.memory_gb
    assert load.gpus == ()
