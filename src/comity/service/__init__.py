"""Service: durable delivery of requests for programs in any language."""

from __future__ import annotations
