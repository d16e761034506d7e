-- Rows as they come from a process: many of them are one argument, an array of one of these. As an array for each column they
-- would cost both sides twice as much.
--
-- None of these is ever altered: processes that run go on to send it as it was. A change makes a type of a new name.

CREATE TYPE new_delivery AS (
    id uuid, lane bigint, phase smallint, method text, url text, priority smallint, rank bigint, mode text, key text,
    due_at bigint, deadline bigint, max_attempts integer, options bytea, headers bytea, body bytea, schedule uuid,
    in_line boolean
);

CREATE TYPE begun_attempt AS (id uuid, lease bigint, fence bigint, cost bytea);

CREATE TYPE ended_attempt AS (
    id uuid, sent text, sent_at bigint, answered_at bigint, status integer, error text, retry_after bigint, timings bytea,
    decision text
);

CREATE TYPE changed_delivery AS (
    id uuid, state text, phase smallint, rank bigint, enqueued_at bigint, due_at bigint, deadline bigint, idle_since bigint,
    ended_at bigint, attempts integer, apart integer, refusals integer, refusals_in_a_row integer, crashes integer,
    cancelling smallint, lease bigint, status integer, error text, reason text
);

CREATE TYPE new_answer AS (
    id uuid, status integer, truncated boolean, size bigint, sha256 bytea, headers bytea, body bytea
);

CREATE TYPE new_event AS (
    at bigint, kind text, lane bigint, origin bigint, delivery uuid, attempt integer, status integer, note text
);
