"""What a run tells about itself: metric events, where they are kept, how they are read."""

from mosaic.telemetry.events.lines import emit_metric as emit_metric
