-- From 0.2.0 to 0.3.0.

ALTER TABLE hilo.position ADD COLUMN skip bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN hilo.position.skip IS 'Values that a server passes over by default if it takes over from a copy of this row, by the rate at which they were reserved';

ALTER TABLE hilo.free_range ADD COLUMN incarnation bigint NOT NULL DEFAULT 0;
ALTER TABLE hilo.free_range DROP CONSTRAINT free_range_pkey;
ALTER TABLE hilo.free_range
    ADD CONSTRAINT free_range_pkey PRIMARY KEY (sequence, node, epoch, incarnation, first_index);
COMMENT ON TABLE hilo.free_range IS 'Ranges of indexes that were reserved and given back: free, or lent to the memory of a server again';
COMMENT ON COLUMN hilo.free_range.incarnation IS 'Life of the server whose memory holds it; 0: nobody does, it is free';

COMMENT ON TABLE hilo.gap IS 'Ranges of values that will not be served any more and are not known to have been served';
COMMENT ON VIEW hilo_gaps IS 'The values that were reserved, will not be served any more and are not known to have been served, as ranges, and why';
COMMENT ON COLUMN hilo_stat_sequences.lost IS 'Values that memory held when the sequence was numbered anew: see hilo_gaps';
