"""ThreadEngine and Gate: threads that wait, lead, and are interrupted."""

from __future__ import annotations

import signal
import threading

import pytest

from comity.engine.call import Call, Exchange
from comity.engine.clock import MONOTONIC
from comity.engine.hosts import Hosts
from comity.engine.limiter import Limiter
from comity.engine.thread_engine import ThreadEngine
from comity.errors import ClientClosed
from comity.policy.backoff import Backoff
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.policy.ticket import Ticket
from comity.policy.units import NS
from comity.testing.virtual_clock import VirtualClock
from tests.engine.log import idle
from tests.engine.scenarios import policy

GENEROUS = 30
CALL = Call(host="api.example", retry=Retry(backoff=Backoff(base=3600, cap=None)), idempotent=True)


@pytest.fixture
def ctrl_c():
    """Let SIGINT raise KeyboardInterrupt, whatever else handled it before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupting:
    """The real clock, but a wait of the main thread is met by Ctrl-C."""

    now = staticmethod(MONOTONIC.now)
    wall = staticmethod(MONOTONIC.wall)

    def signal(self):
        main = threading.main_thread()
        if threading.current_thread() is main:
            threading.Timer(0.01, signal.pthread_kill, (main.ident, signal.SIGINT)).start()
        return MONOTONIC.signal()


def works(engine):
    """Whether a call from another thread comes to its end."""

    def send(slot):
        slot.sent()
        return Exchange(outcome=Outcome(status=200))

    thread = threading.Thread(target=engine.run, args=(CALL, send), daemon=True)
    thread.start()
    thread.join(GENEROUS)
    return not thread.is_alive()


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_while_waiting_for_a_turn_gives_up_the_place():
    """Ctrl-C in a thread that waits at the gate."""
    limiter = Limiter(1, clock=Interrupting())
    holds, done = threading.Event(), threading.Event()

    def hold():
        with limiter:
            holds.set()
            done.wait(GENEROUS)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    holds.wait(GENEROUS)
    with pytest.raises(KeyboardInterrupt), limiter:
        pytest.fail("nobody made room")
    assert limiter.stats().queued == 0
    done.set()
    holder.join(GENEROUS)
    assert idle(limiter)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_while_waiting_for_a_retry_ends_the_call():
    """CP-079: Ctrl-C in a thread that waits for its backoff of an hour."""
    engine = ThreadEngine(Hosts(policy(concurrency=1), clock=Interrupting()))

    def send(slot):
        slot.sent()
        return Exchange(outcome=Outcome(status=500))

    with pytest.raises(KeyboardInterrupt):
        engine.run(CALL, send)
    assert idle(engine)
    assert works(engine)


def test_an_error_in_flight_gives_the_slot_back():
    engine = ThreadEngine(Hosts(policy(concurrency=1)))

    def send(slot):
        slot.sent()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(CALL, send)
    host = engine.stats().hosts["api.example"]
    assert (host.running, host.started, host.cancelled) == (0, 1, 1)
    assert works(engine)


def test_many_threads_never_exceed_a_rate():
    """TH-01: 32 threads, 6 calls each, 11 per second."""
    clock = VirtualClock()
    engine = ThreadEngine(Hosts(policy(rate="11/s", concurrency=None), clock=clock))
    starts = []

    def send(slot):
        slot.sent()
        starts.append(clock.now())
        clock.signal().wait(clock.now() + NS // 10)
        return Exchange(outcome=Outcome(status=200))

    def six():
        return [engine.run(CALL, send).outcome.status for _ in range(6)]

    answers = clock.run_threads(*[six] * 32)
    assert sum(map(len, answers)) == 192
    starts.sort()
    assert all(beyond - first >= NS for first, beyond in zip(starts, starts[11:], strict=False))
    assert idle(engine)


def test_another_thread_watches_the_clock_when_the_leader_has_its_turn():
    """Each of five in turn leads; the fifth is not forgotten."""
    clock = VirtualClock()
    limiter = Limiter(None, rate="1/s", clock=clock)

    def once():
        with limiter:
            return round((clock.now() - NS) / NS, 3)

    assert sorted(clock.run_threads(*[once] * 5)) == [0, 1, 2, 3, 4]


def test_another_thread_watches_the_clock_when_the_leader_gives_up():
    clock = VirtualClock()
    limiter = Limiter(None, rate="1/10s", clock=clock)
    with limiter:
        pass

    def impatient():
        with pytest.raises(Exception, match="no turn within 1 s"), limiter.acquire(timeout=1):
            pass

    def patient():
        clock.signal().wait(clock.now() + NS // 2)
        with limiter:
            return (clock.now() - NS) / NS

    assert clock.run_threads(impatient, patient) == [None, 10]


@pytest.mark.parametrize(("rate", "backoff"), [("1/10s", 0), (None, 10 * NS)], ids=["their turn", "their retry"])
def test_whoever_was_asked_to_lead_and_goes_away_first_leaves_it_to_another(rate, backoff):
    """Three threads wait; the leader is interrupted, and so is the next before it woke up: the third is asked."""
    clock = VirtualClock()
    gate = Hosts(policy(rate=rate), clock=clock).gate("api.example")
    first, *waiting = (Ticket(5, gate.core.meters.ordinary) for _ in range(4))
    assert gate.enter_thread(first)
    gate.started(first)
    for ticket in waiting:
        ticket.not_before = clock.now() + backoff
        assert not gate.enter_thread(ticket)
        ticket.waiter.signal.clear()
        gate._crew.lead(ticket.waiter)
    leader, second, third = waiting
    gate.change(lambda now: gate.withdraw(leader, now))
    assert [ticket.waiter.signal.is_set for ticket in waiting] == [False, True, False]
    gate.change(lambda now: gate.withdraw(second, now))
    assert third.waiter.signal.is_set
    assert gate._crew.lead(third.waiter) == clock.now() + 10 * NS


def test_closing_wakes_every_thread():
    clock = VirtualClock()
    engine = ThreadEngine(Hosts(policy(concurrency=1), clock=clock))

    def send(slot):
        slot.sent()
        clock.signal().wait(clock.now() + 5 * NS)
        return Exchange(outcome=Outcome(status=200))

    def one():
        try:
            return engine.run(CALL, send).reason
        except ClientClosed:
            return "closed"

    def close():
        clock.signal().wait(clock.now() + NS)
        engine.close()

    *ends, _ = clock.run_threads(*[one] * 4, close)
    assert sorted(ends) == ["closed"] * 3 + ["done"]
    assert idle(engine)
