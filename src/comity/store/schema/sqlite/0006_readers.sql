-- Who reads the events, and how far: callbacks go on where they were.

CREATE TABLE readers (
    name TEXT PRIMARY KEY,
    seen INTEGER NOT NULL -- the number of the last event that was read and dealt with
) STRICT, WITHOUT ROWID;

-- Until now the newest callback said so by its key; nobody was further behind than 100000 events.
INSERT INTO readers SELECT 'callbacks', max(0, newest - 100000, min(newest, told)) FROM (
    SELECT coalesce((SELECT max(seq) FROM events), 0) AS newest,
        coalesce((SELECT max(CAST(substr(key, 10) AS INTEGER)) FROM keys WHERE key GLOB 'callback [0-9]*'), 0) AS told
);
