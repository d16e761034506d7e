-- What happened, in order, and what a dashboard shows without counting.

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
