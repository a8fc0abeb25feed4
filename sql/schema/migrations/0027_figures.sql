-- Whether a series counts, as its source says: only then has a part of a sample's time its part of the increase.
alter table series add column counts boolean;
update series s set counts = coalesce(
    (select m.kind = 'counter' from metrics m where m.metric_id = s.metric_id), metric ~ '_(total|sum|count|bucket)$');

-- The seconds that were seen: a figure that is the mean of a gap stands for all of it, and shows one moment.
alter table stored_summaries add column seen double precision;
drop function if exists summary_between(text, text[], timestamptz, timestamptz);  -- it answers otherwise since
