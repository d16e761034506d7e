-- Lanes that nobody has used for long are found without a look at the others, and deleted.

ALTER TABLE lanes ADD COLUMN emptied_at bigint; -- since when it has no deliveries; NULL while it has any

UPDATE lanes SET emptied_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
WHERE pending + retrying + completed + failed + cancelled = 0;

CREATE INDEX lanes_idle ON lanes (emptied_at) WHERE emptied_at IS NOT NULL AND NOT paused AND limits = '{}';

-- Rises when what processes remember of lanes is true no longer.
ALTER TABLE store ADD COLUMN generation bigint NOT NULL DEFAULT 0;
