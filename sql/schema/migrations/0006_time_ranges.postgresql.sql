-- For what goes over a span of time and all series. A range index costs a writer next to nothing.
create index samples_time on samples using brin (time) with (pages_per_range = 32, autosummarize = on);
