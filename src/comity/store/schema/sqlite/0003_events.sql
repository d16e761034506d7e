-- What happened, in order, who has dealt with how much of it, and what a dashboard shows without counting.

CREATE TABLE events (
    seq INTEGER PRIMARY KEY, -- the last row is never deleted, so no number comes twice
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    lane INTEGER,
    origin INTEGER,
    delivery TEXT,
    attempt INTEGER,
    status INTEGER,
    note TEXT
) STRICT;

-- Who reads the events, and how far: callbacks go on where they were.
CREATE TABLE readers (
    name TEXT PRIMARY KEY,
    seen INTEGER NOT NULL -- the number of the last event that was read and dealt with
) STRICT, WITHOUT ROWID;

CREATE TABLE minutes (
    began_at INTEGER NOT NULL,
    lane INTEGER NOT NULL REFERENCES lanes (id),
    attempts INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    time_sum INTEGER NOT NULL,
    time_min INTEGER,
    time_max INTEGER,
    PRIMARY KEY (began_at, lane)
) STRICT, WITHOUT ROWID;
