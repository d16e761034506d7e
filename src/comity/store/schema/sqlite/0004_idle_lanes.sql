-- Lanes that nobody has used for long are found without a look at the others, and deleted.

ALTER TABLE lanes ADD COLUMN emptied_at INTEGER; -- since when it has no deliveries; NULL while it has any

UPDATE lanes SET emptied_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000000000
WHERE pending + retrying + completed + failed + cancelled = 0;

CREATE INDEX lanes_idle ON lanes (emptied_at) WHERE emptied_at IS NOT NULL AND paused = 0 AND limits = x'7b7d';
