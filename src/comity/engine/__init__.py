"""Where real time, event loops and threads meet the pure core; knows no HTTP client."""

from __future__ import annotations
