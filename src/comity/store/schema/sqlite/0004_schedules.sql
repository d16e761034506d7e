-- What is delivered again and again.

CREATE TABLE schedules (
    id TEXT PRIMARY KEY, -- UUIDv7: in order of time
    template BLOB NOT NULL, -- what each run is, in MessagePack
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    overlap TEXT NOT NULL,
    within INTEGER, -- a run's deadline, from its time on
    paused INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL, -- the time of its newest run
    due_at INTEGER NOT NULL, -- when the run after that is to be made: next_at, or sooner when that run waits no more
    latest TEXT NOT NULL, -- its newest run
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX schedules_due ON schedules (due_at) WHERE paused = 0;
CREATE INDEX schedules_latest ON schedules (latest);
