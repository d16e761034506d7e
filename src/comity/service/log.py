"""The service's log."""

from __future__ import annotations

import logging

log = logging.getLogger("comity.service")
