-- Deliveries and their attempts. What is large and never changes stands apart from what changes often.

CREATE TABLE deliveries (
    n INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: a late call must not meet another delivery
    id TEXT NOT NULL UNIQUE,
    lane INTEGER NOT NULL REFERENCES lanes (id),
    state TEXT NOT NULL,
    phase INTEGER NOT NULL, -- 0 at an end, 1 waiting for due_at, 2 ready, 3 claimed, 4 sending
    method TEXT NOT NULL,
    url TEXT NOT NULL,
    priority INTEGER NOT NULL,
    rank INTEGER NOT NULL, -- when it was due first + priority * ageing: the least first
    mode TEXT NOT NULL,
    idempotency_key TEXT,
    created_at INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    deadline INTEGER,
    idle_since INTEGER NOT NULL, -- the end of the last attempt, or enqueued_at
    ended_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0, -- always the number of attempt rows
    apart INTEGER NOT NULL DEFAULT 0, -- of these not counted: refusals, never sent, before a replay
    refusals INTEGER NOT NULL DEFAULT 0,
    refusals_in_a_row INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL DEFAULT 0,
    cancelling INTEGER NOT NULL DEFAULT 0,
    lease INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    status INTEGER,
    error TEXT,
    reason TEXT,
    version INTEGER NOT NULL DEFAULT 1,
    schedule TEXT, -- whose run it is
    -- Set while its lane is ordered, so that deliveries of others need no entry in the index.
    in_line INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX deliveries_waiting ON deliveries (due_at) WHERE phase = 1;
CREATE INDEX deliveries_ready ON deliveries (lane, rank, n) WHERE phase = 2;
CREATE INDEX deliveries_held ON deliveries (lease) WHERE lease IS NOT NULL;
CREATE INDEX deliveries_deadline ON deliveries (deadline) WHERE deadline IS NOT NULL AND phase IN (1, 2);
CREATE INDEX deliveries_ended ON deliveries (state, ended_at) WHERE phase = 0;
CREATE INDEX deliveries_line ON deliveries (lane, n) WHERE in_line = 1 AND phase <> 0;

-- Every page stands in one piece, however many others there are: completed ones behind a million that failed, the few of a lane
-- that failed, those that failed for a reason.
CREATE INDEX deliveries_state ON deliveries (state, n);
CREATE INDEX deliveries_lane ON deliveries (lane, state, n);
CREATE INDEX deliveries_reason ON deliveries (reason, n) WHERE reason IS NOT NULL;
CREATE INDEX deliveries_schedule ON deliveries (schedule, n) WHERE schedule IS NOT NULL;

CREATE TABLE payloads (
    n INTEGER PRIMARY KEY REFERENCES deliveries (n),
    options BLOB NOT NULL,
    headers BLOB NOT NULL,
    body BLOB
) STRICT;

CREATE TABLE answers (
    n INTEGER PRIMARY KEY REFERENCES deliveries (n),
    status INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    size INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    headers BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE attempts (
    n INTEGER NOT NULL REFERENCES deliveries (n),
    number INTEGER NOT NULL,
    origin INTEGER NOT NULL REFERENCES origins (id),
    started_at INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    cost BLOB NOT NULL,
    ended_at INTEGER,
    sent TEXT NOT NULL DEFAULT 'maybe',
    sent_at INTEGER,
    answered_at INTEGER,
    status INTEGER,
    error TEXT,
    retry_after INTEGER,
    timings BLOB NOT NULL DEFAULT x'7b7d', -- {}
    decision TEXT NOT NULL DEFAULT 'sending',
    PRIMARY KEY (n, number)
) STRICT, WITHOUT ROWID;

-- Those under way are found by their deliveries, which are held.
CREATE INDEX attempts_ended ON attempts (origin, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    schedule TEXT -- which one was made; the id is that of its first run
) STRICT, WITHOUT ROWID;

CREATE INDEX keys_age ON keys (created_at);
