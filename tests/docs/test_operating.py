"""The page for operators names every word that the service uses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from comity.store.records import EventKind

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")


def first_column(heading):
    table = PAGE.partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"`([^`]+)`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))


def test_the_table_of_events_has_every_kind():
    assert sorted(first_column("kind")) == sorted(get_args(EventKind))
