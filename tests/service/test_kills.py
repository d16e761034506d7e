"""Kills: a worker's process that is killed at random loses nothing, ends nothing twice and explains every repetition.

COMITY_KILLS says how many kills there are (10); COMITY_SEED makes them come at the same moments again, as far as a kill can.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from comity.store.sqlite.migrations import migrate
from comity.store.transitions import MOST_CRASHES
from comity.testing.upstream import Upstream
from tests.service.victim import DEADLY, delivery

KILLS = int(os.environ.get("COMITY_KILLS", "10"))
SEED = int(os.environ.get("COMITY_SEED", "0"))
PER_KILL = 40
"""So many deliveries for each kill: about as many as are under way in one life."""

VICTIM = Path(__file__).with_name("victim.py")


class Life:
    """One life of the victim; its output is read in a thread, so that it never waits for its reader."""

    def __init__(self, path, url, count, *more):
        command = [sys.executable, str(VICTIM), str(path), url, str(count), *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.acknowledged, self.errors = set(), ""
        self._readers = [threading.Thread(target=each) for each in (self._read, self._complain)]
        for each in self._readers:
            each.start()

    def _read(self):
        self.acknowledged.update(line.strip() for line in self.process.stdout if line.endswith("\n"))

    def _complain(self):
        self.errors = self.process.stderr.read()

    def outlive(self, upstream, arrivals):
        """Wait until so many more requests have arrived; return whether they did."""
        most = len(upstream.log) + arrivals
        with suppress(TimeoutError):
            upstream.wait_until(lambda up: len(up.log) >= most, 60)
        return len(upstream.log) >= most

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.process.kill()
        self.process.wait(60)
        for each in self._readers:
            each.join()
        self.process.stdout.close()
        self.process.stderr.close()


def test_a_killed_worker_loses_nothing_and_ends_nothing_twice(tmp_path):
    """WC-01, WC-05, NP-027..029, BK-01: every acknowledged id comes to an end, with as many attempts as there are rows.

    What arrived more often than its attempts have an outcome arrived in an attempt that reads `unknown`.
    """
    path, count, chance = tmp_path / "store.sqlite", KILLS * PER_KILL, random.Random(SEED)
    migrate(path)
    acknowledged = set()
    with Upstream() as upstream:
        for _ in range(KILLS):
            with Life(path, upstream.url, count) as life:
                reached = life.outlive(upstream, chance.randrange(1, PER_KILL))
                life.process.kill()
            acknowledged |= life.acknowledged
            assert reached, life.errors
            assert "Traceback" not in life.errors, life.errors
            check_books(path)
        with Life(path, upstream.url, count) as life:
            assert life.process.wait(30 + count / 20) == 0, life.errors
        acknowledged |= life.acknowledged
        assert len(acknowledged) == count
        check_books(path)
        check_ends(path, acknowledged, Counter(each.target for each in upstream.log), upstream.url)


def check_books(path):
    """Counted attempts are rows, and counted lanes are deliveries, at any moment."""
    with closing(sqlite3.connect(path)) as db:
        different = db.execute(
            "SELECT d.id, d.attempts, count(a.number) FROM deliveries d LEFT JOIN attempts a ON a.n = d.n "
            "GROUP BY d.n HAVING d.attempts <> count(a.number)"
        ).fetchall()
        assert different == []
        alive, counted = db.execute(
            "SELECT (SELECT count(*) FROM deliveries WHERE state IN ('pending', 'retrying')), "
            "(SELECT coalesce(sum(pending + retrying), 0) FROM lanes)"
        ).fetchone()
        assert alive == counted


def check_ends(path, acknowledged, arrivals, url):
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT n, id, state, url, mode, reason FROM deliveries").fetchall()
        assert {row[1] for row in rows} == acknowledged
        for n, number, state, target, mode, reason in rows:
            decisions = Counter(
                word for (word,) in db.execute("SELECT decision FROM attempts WHERE n = ? AND sent <> 'no'", (n,))
            )
            once = mode == "at_most_once"
            # One that was under way at six kills in a row is held to be what kills.
            allowed = {"outcome unknown"} if once else {"poison"} if decisions["unknown"] > MOST_CRASHES else set()
            assert state == "completed" or reason in allowed, (number, state, reason, decisions)
            assert decisions["completed"] == (state == "completed"), (number, decisions)
            assert decisions["sending"] == 0
            arrived, unknown = arrivals[target.removeprefix(url)], decisions["unknown"]
            known = decisions.total() - unknown
            assert known <= arrived <= known + unknown, (number, arrived, decisions)
            assert not once or arrived <= 1
    assert len(rows) == len({delivery(n, url).url for n in range(len(rows))})


def test_what_kills_its_workers_is_given_up_and_the_others_are_delivered(tmp_path):
    """PO-01: after 3 deaths it is failed, its worker lost; the attempt is counted before it starts."""
    path = tmp_path / "store.sqlite"
    migrate(path)
    with Upstream() as upstream:
        lives = 0
        for _ in range(10):
            with Life(path, upstream.url, 20, "deadly") as life:
                ended = life.process.wait(60)
            lives += 1
            if ended == 0:
                break
            assert ended == DEADLY, life.errors
        assert lives == 4
        with closing(sqlite3.connect(path)) as db:
            told = db.execute("SELECT state, reason, attempts FROM deliveries WHERE url LIKE '%/ok/deadly'").fetchall()
            assert told == [("failed", "worker lost", 3)]
            others = "state = 'completed' OR (mode = 'at_most_once' AND reason = 'outcome unknown')"
            assert db.execute(f"SELECT count(*) FROM deliveries WHERE {others}").fetchone() == (20,)
