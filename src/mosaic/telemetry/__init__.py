"""Metric events of a run: format, storage, curves, and live pictures."""

from mosaic.telemetry.events.lines import emit_metric as emit_metric
