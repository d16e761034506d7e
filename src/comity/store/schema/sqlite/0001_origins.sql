-- Who works, what is shared by all requests to one origin, and the queues to it.
-- All times and lengths: whole nanoseconds, times since the epoch.

CREATE TABLE leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: it fences
    worker TEXT NOT NULL,
    lasting INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE origins (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    lease INTEGER,
    paused_until INTEGER NOT NULL DEFAULT 0,
    blocked_until INTEGER NOT NULL DEFAULT 0,
    gap INTEGER NOT NULL DEFAULT 0,
    live INTEGER NOT NULL DEFAULT 0 -- deliveries that are pending or retrying
) STRICT;

CREATE INDEX origins_owned ON origins (lease) WHERE lease IS NOT NULL;
CREATE INDEX origins_free ON origins (id) WHERE lease IS NULL AND live > 0;

CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    origin INTEGER NOT NULL REFERENCES origins (id),
    paused INTEGER NOT NULL DEFAULT 0,
    pause_reason TEXT, -- why it was paused by itself
    ordered INTEGER NOT NULL DEFAULT 0, -- its deliveries are sent one after the other, in the order in which they were created
    -- Its next delivery cannot go yet; a claim finds that out, and any change of the counts lets it look again.
    stuck INTEGER NOT NULL DEFAULT 0,
    limits BLOB NOT NULL DEFAULT x'7b7d', -- {}
    served_at INTEGER NOT NULL DEFAULT 0, -- whose turn it is: the least first
    -- how many deliveries there are, by state and by phase; changed in the transactions that change them
    pending INTEGER NOT NULL DEFAULT 0,
    retrying INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL DEFAULT 0,
    held INTEGER NOT NULL DEFAULT 0,
    emptied_at INTEGER, -- since when it has no deliveries; NULL while it has any
    failing_since INTEGER, -- the first failure since the last success
    failed_at INTEGER -- the last failure
) STRICT;

CREATE INDEX lanes_ready ON lanes (served_at) WHERE ready > 0 AND paused = 0 AND stuck = 0;
CREATE INDEX lanes_origin ON lanes (origin);
CREATE INDEX lanes_idle ON lanes (emptied_at)
WHERE emptied_at IS NOT NULL AND paused = 0 AND ordered = 0 AND limits = x'7b7d';
CREATE INDEX lanes_failing ON lanes (failing_since) WHERE failing_since IS NOT NULL AND paused = 0;
