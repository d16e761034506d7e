-- Deliveries and their attempts. What is large and never changes stands apart from what changes often.

CREATE TABLE deliveries (
    id uuid PRIMARY KEY, -- UUIDv7: in order of time, and never used twice
    lane bigint NOT NULL,
    state text NOT NULL,
    phase smallint NOT NULL, -- 0 at an end, 1 waiting for due_at, 2 ready, 3 claimed, or being sent when began_at stands
    method text NOT NULL,
    url text NOT NULL,
    priority smallint NOT NULL,
    rank bigint NOT NULL, -- when it was due first + priority * ageing: the least first
    mode text NOT NULL,
    idempotency_key text,
    created_at bigint NOT NULL,
    enqueued_at bigint NOT NULL,
    due_at bigint NOT NULL,
    deadline bigint,
    idle_since bigint NOT NULL, -- the end of the last attempt, or enqueued_at
    ended_at bigint,
    attempts integer NOT NULL DEFAULT 0, -- the number of attempt rows, with the one under way
    apart integer NOT NULL DEFAULT 0, -- of these not counted: refusals, never sent, before a replay
    refusals integer NOT NULL DEFAULT 0,
    refusals_in_a_row integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    crashes integer NOT NULL DEFAULT 0,
    cancelling smallint NOT NULL DEFAULT 0,
    lease bigint,
    fence bigint NOT NULL DEFAULT 0,
    status integer,
    error text,
    reason text,
    version bigint NOT NULL DEFAULT 1,
    schedule uuid, -- whose run it is
    -- Set while its lane is ordered, so that deliveries of others need no entry in the index.
    in_line boolean NOT NULL DEFAULT false,
    -- The attempt under way is written here, once, in a row that is there; it gets its own when it has ended.
    began_at bigint,
    cost bytea
) WITH (fillfactor = 50); -- changed three times within moments: on a page with room no index need be touched for the second

CREATE INDEX deliveries_waiting ON deliveries (due_at) WHERE phase = 1;
CREATE INDEX deliveries_ready ON deliveries (lane, rank, id) WHERE phase = 2;
CREATE INDEX deliveries_held ON deliveries (lease) WHERE lease IS NOT NULL;
CREATE INDEX deliveries_deadline ON deliveries (deadline) WHERE deadline IS NOT NULL AND phase IN (1, 2);
CREATE INDEX deliveries_ended ON deliveries (state, ended_at) WHERE phase = 0;
-- Ids of several processes made in one millisecond have no order; the times of their transactions do.
CREATE INDEX deliveries_line ON deliveries (lane, created_at, id) WHERE in_line AND phase <> 0;

-- Every page stands in one piece, however many others there are: completed ones behind a million that failed, the few of a lane
-- that failed, those that failed for a reason.
CREATE INDEX deliveries_state ON deliveries (state, id);
CREATE INDEX deliveries_lane ON deliveries (lane, state, id);
CREATE INDEX deliveries_reason ON deliveries (reason, id) WHERE reason IS NOT NULL;
CREATE INDEX deliveries_schedule ON deliveries (schedule, id) WHERE schedule IS NOT NULL;

CREATE TABLE payloads (
    id uuid PRIMARY KEY,
    options bytea NOT NULL,
    headers bytea NOT NULL,
    body bytea
);

CREATE TABLE answers (
    id uuid PRIMARY KEY,
    status integer NOT NULL,
    truncated boolean NOT NULL,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    headers bytea NOT NULL,
    body bytea NOT NULL
);

CREATE TABLE attempts (
    id uuid NOT NULL,
    number integer NOT NULL,
    origin bigint NOT NULL,
    started_at bigint NOT NULL,
    waited bigint NOT NULL,
    cost bytea NOT NULL,
    ended_at bigint NOT NULL,
    sent text NOT NULL,
    sent_at bigint,
    answered_at bigint,
    status integer,
    error text,
    retry_after bigint,
    timings bytea NOT NULL,
    decision text NOT NULL,
    PRIMARY KEY (id, number)
);

CREATE INDEX attempts_ended ON attempts (origin, ended_at);

CREATE TABLE keys (
    key text PRIMARY KEY,
    fingerprint bytea NOT NULL,
    id uuid NOT NULL,
    created_at bigint NOT NULL,
    schedule uuid -- which one was made; the id is that of its first run
);

CREATE INDEX keys_age ON keys (created_at);
