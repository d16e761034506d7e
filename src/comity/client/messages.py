"""Messages: what goes out and what comes back."""

from __future__ import annotations

from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response

__all__ = ["Headers", "Request", "Response"]
