-- What a capsule says of metrics that are not known here counts for its own series: `origin` is the capsule, empty for what is
-- ours, as in `places`.
alter table metrics add column origin text not null default '';
alter table metrics drop constraint metrics_metric_match_key;
create unique index metrics_of_ours on metrics (metric, match) where origin = '';
