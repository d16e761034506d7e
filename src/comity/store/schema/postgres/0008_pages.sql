-- Every page stands in one piece, however many others there are: completed ones behind a million that failed, the few of a lane
-- that failed, those that failed for a reason.

DROP INDEX deliveries_state;
DROP INDEX deliveries_lane;

CREATE INDEX deliveries_state ON deliveries (state, id);
CREATE INDEX deliveries_lane ON deliveries (lane, state, id);
CREATE INDEX deliveries_reason ON deliveries (reason, id) WHERE reason IS NOT NULL;
