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

COMMENT ON FUNCTION hilo_alter(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, integer, text, bigint) IS
'Changes a sequence; null keeps an option as it is, block_size 0 and slice_size 0 make it adaptive again. restart_with: the next value; to be given, the same on every node, where several nodes deal the sequence and its increment or cycle changes. Narrower bounds hold for the own transaction at once, everything else from the commit on; after a change of increment or cycle without restart_with the own transaction draws only when it has committed. Needs its owner. Errors: 42704 if it does not exist, 42501, 22023 for options that are invalid or contradict each other, 55000 where several nodes could deal a value twice.';
COMMENT ON FUNCTION hilo_nextval(hilo_sequence) IS
'The next value of a sequence. Waits up to hilo.reserve_timeout when none is ready. Needs USAGE or UPDATE. Errors: 42704 if it does not exist, 2200H if it is used up, 42501, 25006 on a standby, 55000 if hilo is not preloaded, or in a transaction that has changed its increment or cycle; if the wait was in vain 55P03, 53400 without a free worker, or what the worker met.';
