-- Whether a series counts, as its source says: only then has a part of a sample's time its part of the increase.
alter table series add column kind text check (kind in ('gauge', 'counter'));
update series s set kind = coalesce(
    (select m.kind from metrics m where m.metric_id = s.metric_id),
    case when metric ~ '_(total|sum|count|bucket)$' then 'counter' else 'gauge' end);

-- The seconds that were seen: a figure that is the mean of a gap stands for all of it, and shows one moment.
alter table stored_summaries add column seen double precision;
drop function if exists summary_between(text, text[], timestamptz, timestamptz);  -- it answers otherwise since
