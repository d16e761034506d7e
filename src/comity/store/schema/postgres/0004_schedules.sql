-- What is delivered again and again.

CREATE TABLE schedules (
    id uuid PRIMARY KEY, -- UUIDv7: in order of time
    template bytea NOT NULL, -- what each run is, in MessagePack
    cron text NOT NULL,
    zone text NOT NULL,
    overlap text NOT NULL,
    within bigint, -- a run's deadline, from its time on
    paused boolean NOT NULL DEFAULT false,
    next_at bigint NOT NULL, -- the time of its newest run
    due_at bigint NOT NULL, -- when the run after that is to be made: next_at, or sooner when that run waits no more
    latest uuid NOT NULL, -- its newest run
    created_at bigint NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX schedules_due ON schedules (due_at) WHERE NOT paused;
CREATE INDEX schedules_latest ON schedules (latest);
