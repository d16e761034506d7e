-- Lanes whose deliveries are sent one after the other, in the order in which they were created.

-- lanes.waiting is false also while the next delivery of an ordered lane cannot go yet; a claim finds that out, and any change
-- of the counts lets it look again.
ALTER TABLE lanes ADD COLUMN ordered boolean NOT NULL DEFAULT false;

DROP INDEX lanes_idle;
CREATE INDEX lanes_idle ON lanes (emptied_at)
WHERE emptied_at IS NOT NULL AND NOT paused AND NOT ordered AND limits = '{}';

-- Set while its lane is ordered, so that deliveries of others need no entry in the index.
ALTER TABLE deliveries ADD COLUMN in_line boolean NOT NULL DEFAULT false;
-- Ids of several processes made in one millisecond have no order; the times of their transactions do.
CREATE INDEX deliveries_line ON deliveries (lane, created_at, id) WHERE in_line AND phase <> 0;

ALTER TYPE new_delivery ADD ATTRIBUTE in_line boolean;
