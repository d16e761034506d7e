"""IdempotencyKey: the key of each row, the same whenever and however often the row is sent."""

from __future__ import annotations

import hashlib

from comity.bulk.rows import Row
from comity.client.options import RequestOptions

STANDARD = "idempotency-key"


class IdempotencyKey:
    """Give each row a key that a resumed run gives it again: a hash of the journal's nonce and the line.

    Args:
        name: the header's name; a row that has such a header keeps its own.
        nonce: random text of the journal.
    """

    def __init__(self, name: str, nonce: str) -> None:
        self.name, self.nonce = name, nonce

    def of(self, line: int) -> str:
        """Return the key of a line."""
        return hashlib.blake2b(f"{self.nonce}:{line}".encode(), digest_size=16).hexdigest()

    def options(self, row: Row) -> RequestOptions:
        """Return what to add to a request: the key, and that it may be repeated, which the key makes harmless."""
        headers = row.headers or {}
        if any(name.lower() == self.name.lower() for name in headers):
            return {"idempotent": True}
        if self.name.lower() == STANDARD:
            return {"idempotency_key": self.of(row.line)}
        return {"headers": headers | {self.name: self.of(row.line)}, "idempotent": True}
