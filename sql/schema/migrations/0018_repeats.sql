-- Series that do not count for a run, for another target gives the same metric of the same place, and covers more of it.
-- Written with the run's summary.
create table repeats (
    run_id    text not null references runs on delete cascade,
    series_id integer not null references series on delete cascade,
    primary key (run_id, series_id)
);

-- Where all of them were added up, the summaries are made anew, as far as there are samples.
update runs set summarised = false
where summarised and started_at >= (select edge from retention)
  and run_id in (select rs.run_id from run_sets rs join series s using (place_id) where s.metric_id is not null
                 group by rs.run_id, s.place_id, s.quantity, s.metric having count(distinct s.target_id) > 1);

-- It takes the experiment's place since.
drop function if exists chart_style(integer, bigint);
