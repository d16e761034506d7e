-- Who works, what is shared by all requests to one origin, and the queues to it.
-- All times and lengths: whole nanoseconds, times since the epoch.
--
-- No foreign keys: each row inserted would lock the row it refers to, and the same few lanes are changed by every commit.

CREATE TABLE store (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), -- one row; whoever has it locked is the next to commit
    version integer NOT NULL,
    seq bigint NOT NULL DEFAULT 0, -- the number of the last event
    generation bigint NOT NULL DEFAULT 0 -- rises when what processes remember of lanes is true no longer
) WITH (fillfactor = 10);

INSERT INTO store (version) VALUES (0);

CREATE TABLE leases (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used twice: it fences
    worker text NOT NULL,
    lasting bigint NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE origins (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    lease bigint,
    paused_until bigint NOT NULL DEFAULT 0,
    blocked_until bigint NOT NULL DEFAULT 0,
    gap bigint NOT NULL DEFAULT 0,
    live bigint NOT NULL DEFAULT 0, -- deliveries that are pending or retrying
    -- live > 0. What an index names is changed seldom, so that an update needs no new entry in any index.
    wanted boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

CREATE INDEX origins_owned ON origins (lease) WHERE lease IS NOT NULL;
CREATE INDEX origins_free ON origins (id) WHERE lease IS NULL AND wanted;

CREATE TABLE lanes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    origin bigint NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    pause_reason text, -- why it was paused by itself
    ordered boolean NOT NULL DEFAULT false, -- its deliveries are sent one after the other, in the order in which they were created
    limits bytea NOT NULL DEFAULT '{}',
    served_at bigint NOT NULL DEFAULT 0, -- whose turn it is: the least first
    -- ready > 0, but false also while the next delivery of an ordered lane cannot go yet; a claim finds that out, and any change
    -- of the counts lets it look again.
    waiting boolean NOT NULL DEFAULT false,
    -- how many deliveries there are, by state and by phase; changed in the transactions that change them
    pending bigint NOT NULL DEFAULT 0,
    retrying bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    ready bigint NOT NULL DEFAULT 0,
    held bigint NOT NULL DEFAULT 0,
    emptied_at bigint, -- since when it has no deliveries; NULL while it has any
    failing_since bigint, -- the first failure since the last success
    failed_at bigint -- the last failure
) WITH (fillfactor = 50);

CREATE INDEX lanes_waiting ON lanes (origin) WHERE waiting;
CREATE INDEX lanes_origin ON lanes (origin);
CREATE INDEX lanes_idle ON lanes (emptied_at)
WHERE emptied_at IS NOT NULL AND NOT paused AND NOT ordered AND limits = '{}';
CREATE INDEX lanes_failing ON lanes (failing_since) WHERE failing_since IS NOT NULL AND NOT paused;
