-- Who reads the events, and how far: callbacks go on where they were.

CREATE TABLE readers (
    name text PRIMARY KEY,
    seen bigint NOT NULL -- the number of the last event that was read and dealt with
);

-- Until now the newest callback said so by its key; nobody was further behind than 100000 events.
INSERT INTO readers SELECT 'callbacks', greatest(0, newest - 100000, least(newest, told)) FROM (
    SELECT (SELECT seq FROM store) AS newest,
        coalesce((SELECT max(substr(key, 10)::bigint) FROM keys WHERE key ~ '^callback [0-9]{1,18}$'), 0) AS told
) x;
