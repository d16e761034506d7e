-- Lanes whose deliveries are sent one after the other, in the order in which they were created.

ALTER TABLE lanes ADD COLUMN ordered INTEGER NOT NULL DEFAULT 0;
-- Its next delivery cannot go yet; a claim finds that out, and any change of the counts lets it look again.
ALTER TABLE lanes ADD COLUMN stuck INTEGER NOT NULL DEFAULT 0;

DROP INDEX lanes_ready;
CREATE INDEX lanes_ready ON lanes (served_at) WHERE ready > 0 AND paused = 0 AND stuck = 0;
DROP INDEX lanes_idle;
CREATE INDEX lanes_idle ON lanes (emptied_at)
WHERE emptied_at IS NOT NULL AND paused = 0 AND ordered = 0 AND limits = x'7b7d';

-- Set while its lane is ordered, so that deliveries of others need no entry in the index.
ALTER TABLE deliveries ADD COLUMN in_line INTEGER NOT NULL DEFAULT 0;
CREATE INDEX deliveries_line ON deliveries (lane, n) WHERE in_line = 1 AND phase <> 0;
