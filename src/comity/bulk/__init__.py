"""A file of requests sent politely, with progress, and resumable after a kill."""

from __future__ import annotations
