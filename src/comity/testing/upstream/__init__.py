"""A mock server on loopback: real sockets, exact limits, real faults, and a log of what arrived.

It is a peer for tests and trials of anything that calls HTTP: `Upstream` in Python, `comity upstream` in a shell.

    /ok/{id}            200, {"id": ...}                                ?bytes= pads the body to that size
    /status/{code}      that status                                     ?retry_after= ?header=Name:value (again and again) ?type= ?body=
    /delay/{ms}         200 after that many ms
    /echo               200, the request as JSON: method and target byte for byte, headers as pairs in order, body as base64 and text
    /redirect           to another place                                ?to=/ok/redirected ?code=302 ?n=1 hops
    /set-cookie         200 with Set-Cookie fields                      ?cookie= (again and again)
    /flaky/{key}        fails the first requests of a key               ?fail=1 ?code=503, reset or hang ?retry_after=
    /limited/{key}      429 over n in any sliding window                ?n=50 ?per=5 s ?hint=yes or no ?retry_after=
    /window/{key}       429 over n in a fixed window                    ?n=50 ?per=5 s ?hint= ?retry_after=
    /bucket/{key}       429 when a token bucket is empty                ?rate=10 a second ?burst=10 ?hint= ?retry_after=
    /headers/{key}      as limited, and announces the quota             ?n=50 ?per=5 s ?style=draft, x, epoch or old ?hint= ?retry_after=
    /slots/{key}        c workers, the others wait                      ?c=4 ?ms=50 each ?queue= waiting at most, else 503 ?retry_after=
    /hang               an answer that never comes                      ?after=request, headers or body
    /reset              RST instead of an answer                        ?after=request, headers or body ?ms=20 between that part and the RST
    /truncate           a body that is not whole                        ?kind=length, chunked, gzip (no trailer) or crc (wrong checksum)
    /slow-body          a body that drips                               ?chunks=10 ?ms=100 before each ?bytes=1 each
    /endless            zeros for ever                                  ?bytes= in all
    /_log               GET: the arrivals as a JSON array; DELETE: forget everything, or ?state=keep the limits
                                                                        ?path= those whose target starts so
    /_stats             totals, peaks, and the fullest window of each limited key
    /                   this table

Every path also takes ?ms= (answer that much later; where ms has a meaning of its own, that one), ?jitter= (and later by a
random time of 0 to that many ms, from a seeded generator) and ?close=yes (Connection: close), silent (closed after the answer
without a word) or reset.

A request arrives when its head has been read: that instant is logged, and limits judge by it, before anything else happens.
Refused requests do not count against a limit. Retry-After is in whole seconds, rounded up, never 0, unless ?retry_after= gives
another text or ?hint=no leaves it out. The numbers of a limit come with each request: n and c may change at any time, another
per, rate or burst starts the key anew. Requests for /_... are neither logged nor counted.

A client that closes its half of the connection is answered first. One that has gone looks the same, so it is noticed when its
answer is written; where none would ever be, at once.
"""

from __future__ import annotations

from comity.testing.upstream.journal import Arrival, Count, Stats, Window, peak
from comity.testing.upstream.server import Upstream

__all__ = ["Arrival", "Count", "Stats", "Upstream", "Window", "peak"]
