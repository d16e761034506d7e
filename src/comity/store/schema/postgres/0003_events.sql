-- What happened, in order, who has dealt with how much of it, and what a dashboard shows without counting.

CREATE TABLE events (
    seq bigint PRIMARY KEY,
    at bigint NOT NULL,
    kind text NOT NULL,
    lane bigint,
    origin bigint,
    delivery uuid,
    attempt integer,
    status integer,
    note text
);

-- Who reads the events, and how far: callbacks go on where they were.
CREATE TABLE readers (
    name text PRIMARY KEY,
    seen bigint NOT NULL -- the number of the last event that was read and dealt with
);

CREATE TABLE minutes (
    began_at bigint NOT NULL,
    lane bigint NOT NULL,
    attempts bigint NOT NULL,
    ok bigint NOT NULL,
    refused bigint NOT NULL,
    failed bigint NOT NULL,
    answered bigint NOT NULL,
    time_sum bigint NOT NULL,
    time_min bigint,
    time_max bigint,
    PRIMARY KEY (began_at, lane)
) WITH (fillfactor = 50);
