"""The HTTP client: messages, the wire and what a caller holds in the hand."""

from __future__ import annotations
