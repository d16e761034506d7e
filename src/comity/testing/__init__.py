"""Tools for testing programs that use comity: a virtual clock, a scripted transport, a real upstream."""

from __future__ import annotations
