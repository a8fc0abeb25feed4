-- What is refreshed is a span of time over all series, which the index by series does not serve: without these, each
-- refresh reads all of the newest chunk. A range index costs a writer next to nothing.
create index samples_time on samples using brin (time) with (pages_per_range = 32, autosummarize = on);
create index samples_10s_time on samples_10s using brin (bucket) with (pages_per_range = 32, autosummarize = on);
create index samples_1m_time on samples_1m using brin (bucket) with (pages_per_range = 32, autosummarize = on);
