"""Whatever is sent along the lines of the OpenAPI document: the server never fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from server_kit import LIMITS, app_client, toy

from mosaic.server.app import create_app
from mosaic.server.secret import ensure_token
from mosaic.server.settings import ServerSettings
