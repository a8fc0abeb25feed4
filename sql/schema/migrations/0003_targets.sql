-- Who scrapes a target, and how far its host's clock is from the collector's.

alter table targets
    add column collector         text,             -- the source of its batches; keeps the target while the lease lasts
    add column collector_host    text,
    add column collector_pid     integer,
    add column lease_until       timestamptz,
    add column clock_offset      double precision, -- seconds by which the host's clock is ahead of the collector's
    add column clock_uncertainty double precision; -- seconds; the truth lies within the offset, more or less this
