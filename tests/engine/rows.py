"""The rows of the scenario table."""

from __future__ import annotations

from comity.policy.backoff import Backoff
from comity.policy.rate import Rate
from tests.engine.scenarios import OK, Answer, Asked, Scenario, answers, policy, refused

AT_ONCE = Backoff(base=0, jitter=None)

ATTEMPTS = [
    Scenario(
        name="two server errors, then a success",
        policy=policy(attempts=3),
        asked=(Asked(gets=answers(500, 500, 200), starts=(0, 1.1, 3.2)),),
    ),
    Scenario(
        name="attempts used up",
        policy=policy(attempts=3),
        asked=(Asked(gets=answers(503), starts=(0, 1.1, 3.2), ends="503 attempts", until=3.3),),
    ),
    Scenario(
        name="two attempts of a server that always fails",
        policy=policy(attempts=2),
        asked=(Asked(gets=answers(500), starts=(0, 1.1), ends="500 attempts"),),
    ),
    Scenario(
        name="the pool's worked example: 2, 4, 8, 16 s",
        policy=policy(attempts=5, backoff=Backoff(base=2, factor=2, cap=None, jitter=None)),
        asked=(Asked(gets=answers(500, takes=0), starts=(0, 2, 6, 14, 30), ends="500 attempts"),),
    ),
    *(
        Scenario(
            name=f"{status} is sent once",
            asked=(Asked(gets=answers(status), ends=f"{status}"),),
        )
        for status in (400, 401, 403, 404, 422)
    ),
    *(
        Scenario(name=f"{status} ends the loop", policy=policy(attempts=6), asked=(asked,))
        for status, asked in ((code, Asked(gets=answers(code), ends=f"{code}")) for code in (200, 204, 206, 302))
    ),
    Scenario(
        name="408, then a success",
        policy=policy(),
        asked=(Asked(gets=answers(408, 200), starts=(0, 1.1)),),
    ),
    Scenario(
        name="a closed port, twice",
        policy=policy(attempts=2),
        asked=(Asked(gets=answers("connect"), starts=(0, 1.1), ends="connect attempts"),),
    ),
    Scenario(
        name="an attempt's own time limit is retried like a network error",
        policy=policy(),
        asked=(Asked(gets=answers("timeout", 200), starts=(0, 1.1)),),
    ),
    Scenario(
        name="a broken answer is not asked for again",
        policy=policy(),
        asked=(Asked(gets=answers("bad"), ends="bad bad"),),
    ),
    Scenario(
        name="what may not be repeated is sent once, unless nothing of it was sent",
        policy=policy(),
        asked=(
            Asked(idempotent=False, gets=answers(500), ends="500 method"),
            Asked(idempotent=False, gets=answers("lost"), ends="lost method"),
            Asked(idempotent=False, gets=answers("connect", 200), starts=(0, 1.1)),
        ),
    ),
    Scenario(
        name="what one request says counts for more than the policy",
        policy=policy(idempotent="any"),
        asked=(Asked(idempotent=False, gets=answers(500), ends="500 method"),),
    ),
    Scenario(
        name="a body that cannot be sent twice",
        policy=policy(),
        asked=(Asked(replayable=False, gets=answers(500), ends="500 body"),),
    ),
]

REFUSALS = [
    Scenario(
        name="a 429 is waited out exactly as long as it says, whatever the method",
        policy=policy(),
        asked=(Asked(idempotent=False, gets=answers(refused(2), 200), starts=(0, 2.1)),),
    ),
    Scenario(
        name="0 and fractions of a second",
        policy=policy(concurrency=1),
        asked=(
            Asked(gets=answers(refused(0), 200), starts=(0, 0.1)),
            Asked(at=5, gets=answers(refused(0.25), 200), starts=(5, 5.35)),
        ),
    ),
    Scenario(
        name="without a hint the paced fetch's steps: 1, 3, 10 s",
        policy=policy(attempts=4, refusals=0, backoff=Backoff(steps=(1, 3, 10), jitter=None)),
        asked=(Asked(gets=answers(429, takes=0), starts=(0, 1, 4, 14), ends="429 attempts"),),
    ),
    Scenario(
        name="refusals are counted apart from attempts",
        policy=policy(attempts=2),
        asked=(Asked(gets=answers(refused(1), refused(1), refused(1), 500, 200), starts=(0, 1.1, 3.2, 7.3, 8.4)),),
    ),
    Scenario(
        name="refusals are in a row only without another outcome between them",
        policy=policy(attempts=3),
        asked=(Asked(gets=answers(refused(1), 500, refused(1), 200), starts=(0, 1.1, 2.2, 3.3)),),
    ),
    Scenario(
        name="refusals=0 counts them as attempts",
        policy=policy(attempts=2, refusals=0),
        asked=(Asked(gets=answers(refused(1)), starts=(0, 1.1), ends="429 attempts"),),
    ),
    Scenario(
        name="refusals used up",
        policy=policy(refusals=1),
        asked=(Asked(gets=answers(refused(1)), starts=(0, 1.1), ends="429 refusals"),),
    ),
    Scenario(
        name="the pool's clamp sends early",
        policy=policy(max_retry_after=0.4, over_cap="clamp"),
        asked=(Asked(gets=answers(refused(30), 200), starts=(0, 0.5)),),
    ),
    Scenario(
        name="one refusal pauses everybody, then the host is approached one at a time",
        policy=policy(concurrency=3),
        asked=(
            Asked(gets=answers(refused(2), 200), starts=(0, 2.1)),
            Asked(at=1, starts=(2.2,)),
            Asked(at=1, starts=(2.2,)),
            Asked(at=1, starts=(2.3,)),
            Asked(at=1, starts=(2.3,)),
            Asked(at=1, starts=(2.3,)),
            Asked(at=1, starts=(2.4,)),
        ),
    ),
    Scenario(
        name="several refusals at once are one episode: the gap widens once",
        policy=policy(concurrency=2, learn="gap"),
        asked=(
            Asked(gets=answers(refused(1), 200), starts=(0, 1.1)),
            Asked(gets=answers(refused(1), 200), starts=(0, 1.35)),
            Asked(at=0.5, starts=(1.6,)),
        ),
    ),
    Scenario(
        name="a second episode doubles the gap",
        policy=policy(learn="gap"),
        asked=(
            Asked(gets=answers(refused(1), refused(1), 200), starts=(0, 1.1, 3.2)),
            Asked(at=1.2, starts=(3.7,)),
        ),
    ),
    Scenario(
        name="a 503 with Retry-After pauses the host too",
        policy=policy(),
        asked=(
            Asked(gets=(Answer(status=503, retry_after=5), *OK), starts=(0, 5.1)),
            Asked(at=1, starts=(5.2,)),
        ),
    ),
    Scenario(
        name="a paused host holds up no other",
        policy=policy(concurrency=2),
        max_connections=2,
        asked=(
            Asked(host="a", gets=answers(refused(5), 200), starts=(0, 5.1)),
            *(Asked(at=0.2, host="a", starts=(start,)) for start in (5.2, 5.2)),
            *(Asked(at=0.3, host="b", starts=(start,)) for start in (0.3, 0.3, 0.4, 0.4, 0.5, 0.5)),
        ),
    ),
]

BLOCKS = [
    Scenario(
        name="a wait beyond the cap ends the call, and later and queued ones, at once; other hosts go on",
        policy=policy(concurrency=1, max_retry_after=60),
        asked=(
            Asked(gets=answers(refused(100)), ends="429 retry_after", until=0.1),
            Asked(at=0.05, starts=(), ends="HostBlocked", until=0.1),
            Asked(at=50, starts=(), ends="HostBlocked", until=50),
            Asked(at=50, host="other.example", starts=(50,)),
            Asked(at=100.2, starts=(100.2,)),
        ),
    ),
    Scenario(
        name="who waits for a retry is refused too when the host is blocked meanwhile",
        policy=policy(concurrency=2),
        asked=(
            Asked(gets=answers(500, 200), starts=(0,), ends="HostBlocked", until=0.3),
            Asked(at=0.2, gets=answers(refused(100)), starts=(0.2,), ends="429 retry_after"),
        ),
    ),
]

WINDOWS = [
    Scenario(
        name="a fixed window lets the burst go and the rest wait for the next",
        policy=policy(rate=Rate(2, 2, kind="fixed")),
        asked=tuple(Asked(starts=(start,)) for start in (0, 0, 2, 2, 4)),
    ),
    Scenario(
        name="after an idle window a request starts at once",
        policy=policy(rate=Rate(1, 2, kind="fixed")),
        asked=(Asked(), Asked(at=2.2, starts=(2.2,))),
    ),
    Scenario(
        name="retries take their permission from the quota too",
        policy=policy(rate=Rate(2, 1, kind="fixed"), attempts=4, backoff=AT_ONCE),
        asked=(
            Asked(gets=answers(500, takes=0.01), starts=(0, 1, 2, 3), ends="500 attempts"),
            Asked(gets=answers(500, takes=0.01), starts=(0, 1, 2, 3), ends="500 attempts"),
            Asked(gets=answers(500, takes=0.01), starts=(4, 4.01, 5, 5.01), ends="500 attempts"),
        ),
    ),
    Scenario(
        name="a sliding window never sees more than its limit",
        policy=policy(rate="4/2s", concurrency=None),
        asked=tuple(Asked(starts=(2 * (n // 4),)) for n in range(10)),
    ),
    Scenario(
        name="every attempt takes its own permit",
        policy=policy(rate="2/s", backoff=AT_ONCE, concurrency=None),
        asked=tuple(
            Asked(gets=answers(500, 200, takes=0.01), starts=starts) for starts in ((0, 1), (0, 1), (2, 3), (2, 3))
        ),
    ),
    Scenario(
        name="two rates at once: both hold, no permit is lost",
        policy=policy(rate=["5/s", "8/4s"], concurrency=None),
        asked=tuple(Asked(starts=(start,)) for start in (0, 0, 0, 0, 0, 1, 1, 1, 4, 4, 4, 4, 4, 5, 5, 5)),
    ),
    Scenario(
        name="even spacing",
        policy=policy(rate=Rate(3, 3, spread=True)),
        asked=tuple(Asked(starts=(start,)) for start in (0, 1, 2)),
    ),
    Scenario(
        name="measured at the server: an entry ends so long after its answer began",
        policy=policy(rate=Rate(1, 1, measured="server")),
        asked=(Asked(gets=answers(200, takes=0.3)), Asked(starts=(1.3,))),
    ),
    Scenario(
        name="a least gap between two starts",
        policy=policy(min_gap=0.4),
        asked=tuple(Asked(gets=answers(200, takes=2), starts=(start,)) for start in (0, 0.4, 0.8)),
    ),
    Scenario(
        name="no more than so many at once",
        policy=policy(concurrency=2),
        asked=tuple(Asked(starts=(start,)) for start in (0, 0, 0.1, 0.1, 0.2)),
    ),
    Scenario(
        name="costs by budget",
        policy=policy(rate="100 tokens/s"),
        asked=(
            Asked(cost={"tokens": 60}),
            Asked(cost={"tokens": 60}, starts=(1,)),
            Asked(cost={"tokens": 40}, starts=(1,)),
        ),
    ),
]

ORDER = [
    Scenario(
        name="low numbers first",
        policy=policy(concurrency=1),
        asked=(
            Asked(),
            Asked(at=0.01, priority=9, starts=(0.3,)),
            Asked(at=0.01, priority=1, starts=(0.1,)),
            Asked(at=0.01, priority=5, starts=(0.2,)),
        ),
    ),
    Scenario(
        name="the default comes before 6",
        policy=policy(concurrency=1),
        asked=(Asked(), Asked(at=0.01, priority=6, starts=(0.2,)), Asked(at=0.01, starts=(0.1,))),
    ),
    Scenario(
        name="an urgent request goes next, not after those that wait for the gap",
        policy=policy(concurrency=3, min_gap=0.4),
        asked=(
            Asked(),
            *(Asked(at=0.01, priority=9, starts=(start,)) for start in (0.8, 1.2, 1.6, 2.0, 2.4)),
            Asked(at=0.1, priority=0, starts=(0.4,)),
        ),
    ),
    Scenario(
        name="ageing bounds the wait of a low priority behind a stream of urgent ones",
        policy=policy(concurrency=1, ageing=0.1),
        asked=(
            Asked(gets=answers(200, takes=1)),
            Asked(at=0.05, priority=9, starts=(1.5,)),
            *(
                Asked(at=at, priority=0, starts=(start,))
                for at, start in ((0.5, 1.0), (0.6, 1.1), (0.7, 1.2), (0.8, 1.3), (0.9, 1.4), (0.96, 1.6), (1.0, 1.7))
            ),
        ),
    ),
    Scenario(
        name="ageing=None is strict",
        policy=policy(concurrency=1, ageing=None),
        asked=(
            Asked(gets=answers(200, takes=1)),
            Asked(at=0.05, priority=9, starts=(1.3,)),
            *(Asked(at=at, priority=0, starts=(start,)) for at, start in ((0.5, 1.0), (0.6, 1.1), (0.7, 1.2))),
        ),
    ),
    Scenario(
        name="a retry keeps its place in line",
        policy=policy(concurrency=1),
        asked=(
            Asked(gets=answers(500, 200), starts=(0, 1.3)),
            Asked(at=0.01, gets=answers(200, takes=1.2), starts=(0.1,)),
            Asked(at=0.02, starts=(1.4,)),
        ),
    ),
    Scenario(
        name="a retry gives its slot away while it waits",
        policy=policy(concurrency=1),
        asked=(Asked(gets=answers(500, 200), starts=(0, 1.1)), Asked(at=0.01, starts=(0.1,))),
    ),
    Scenario(
        name="hold_slot keeps it: backpressure as the request pool has it",
        policy=policy(concurrency=1, hold_slot=True),
        asked=(Asked(gets=answers(500, 200), starts=(0, 1.1)), Asked(at=0.01, starts=(1.2,))),
    ),
    Scenario(
        name="a held slot keeps its place under the bound over hosts, and takes no second one",
        policy=policy(hold_slot=True),
        max_connections=2,
        asked=(
            Asked(gets=answers(500, 200), starts=(0, 1.1)),
            Asked(at=2, starts=(2,)),
            Asked(at=2, starts=(2,)),
            Asked(at=2, starts=(2.1,)),
        ),
    ),
    Scenario(
        name="hosts take turns at a full bound, one place a turn",
        max_connections=1,
        asked=(
            *(Asked(host="a", starts=(start,)) for start in (0, 0.1, 0.3, 0.4)),
            Asked(at=0.05, host="b", starts=(0.2,)),
        ),
    ),
    Scenario(
        name="a host at its rate limit gives its turn away",
        hosts={"a": policy(rate="1/s")},
        max_connections=1,
        asked=(
            *(Asked(host="a", starts=(start,)) for start in (0, 1)),
            *(Asked(at=0.05, host="b", starts=(start,)) for start in (0.1, 0.2, 0.3)),
        ),
    ),
]

LIMITS_OF_WAITING = [
    Scenario(
        name="the deadline holds in the queue",
        policy=policy(concurrency=1),
        asked=(
            Asked(gets=answers(200, takes=5)),
            Asked(deadline=1, starts=(), ends="TimedOut", until=1),
            Asked(at=0.5, starts=(5,)),
        ),
    ),
    Scenario(
        name="the deadline holds in flight, and what it cuts off is not sent again",
        policy=policy(),
        asked=(Asked(gets=answers(200, takes=5), deadline=1, ends="deadline deadline", until=1),),
    ),
    Scenario(
        name="a retry that would come too late is not waited for",
        policy=policy(attempts=5),
        asked=(Asked(gets=answers(500), deadline=2, starts=(0, 1.1), ends="500 deadline", until=1.2),),
    ),
    Scenario(
        name="a pause beyond everybody's deadline ends them all at once, after one send",
        policy=policy(concurrency=1),
        asked=(
            Asked(gets=answers(refused(5)), deadline=1, ends="429 deadline", until=0.1),
            *(Asked(deadline=1, starts=(), ends="HostBlocked", until=0.1) for _ in range(149)),
            Asked(at=1, deadline=1, starts=(), ends="HostBlocked", until=1),
            Asked(at=6, deadline=1, starts=(6,)),
        ),
    ),
    Scenario(
        name="the queue's own limit leaves the counts exact",
        policy=policy(concurrency=1),
        asked=(
            Asked(gets=answers(200, takes=1)),
            *(Asked(at=0.1, queue_timeout=0.2, starts=(), ends="QueueTimeout", until=0.3) for _ in range(4)),
            Asked(at=1.1, starts=(1.1,)),
        ),
    ),
    Scenario(
        name="the queue's own limit comes before a later deadline",
        policy=policy(concurrency=1),
        asked=(
            Asked(gets=answers(200, takes=5)),
            Asked(deadline=3, queue_timeout=1, starts=(), ends="QueueTimeout", until=1),
            Asked(deadline=1, queue_timeout=3, starts=(), ends="TimedOut", until=1),
        ),
    ),
    Scenario(
        name="each attempt may wait its own queue_timeout",
        policy=policy(rate="1/s", backoff=AT_ONCE, attempts=3),
        asked=(Asked(gets=answers(500, 500, 200), queue_timeout=1.5, starts=(0, 1, 2)),),
    ),
    Scenario(
        name="an available permit is granted at once at any rate; the next is told how long it would take",
        policy=policy(rate="1/10000s"),
        asked=(Asked(), Asked(at=1, queue_timeout=0.2, starts=(), ends="QueueTimeout", until=1.2)),
    ),
    Scenario(
        name="a full queue refuses, and takes again as soon as there is room",
        policy=policy(concurrency=1, max_queue=3),
        asked=(
            *(Asked(gets=answers(200, takes=0.2), starts=(start,)) for start in (0, 0.2, 0.4, 0.6)),
            *(Asked(starts=(), ends="QueueFull", until=0) for _ in range(6)),
            Asked(at=0.25, starts=(0.8,)),
            Asked(at=5, starts=(5,)),
        ),
    ),
    Scenario(
        name="a retry is not refused by a full queue",
        policy=policy(concurrency=1, max_queue=1),
        asked=(
            Asked(gets=answers(500, 200), starts=(0, 2.1)),
            Asked(at=0.05, gets=answers(200, takes=2), starts=(0.1,)),
            Asked(at=0.5, starts=(2.2,)),
        ),
    ),
    Scenario(
        name="closing refuses who waits and who comes; who runs may finish",
        policy=policy(concurrency=1),
        close=0.5,
        asked=(
            Asked(gets=answers(200, takes=1), until=1),
            Asked(at=0.1, starts=(), ends="ClientClosed", until=0.5),
            Asked(at=0.6, starts=(), ends="ClientClosed", until=0.6),
            Asked(at=0.7, host="new.example", starts=(), ends="ClientClosed", until=0.7),
        ),
    ),
    Scenario(
        name="closing refuses at once who waits for a retry",
        policy=policy(concurrency=1),
        close=0.5,
        asked=(Asked(gets=answers(500), starts=(0,), ends="ClientClosed", until=0.5),),
    ),
]
