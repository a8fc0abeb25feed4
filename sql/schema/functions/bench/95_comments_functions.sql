-- Comments on the functions of the contract.

comment on function run_chart is 'Return points of run metrics in canonical units, from the relation that fits the step in milliseconds. Null scopes: the narrowest of each run.';
comment on function workload_chart is 'Return points of workload metrics in canonical units: the mean over the runs of each workload.';
comment on function chart_axis is 'Return the range of a run on an axis (time, step, epoch, phase), as positions and as times; no row where it has none.';
comment on function run_label is 'Return the label of a run: EXPERIMENT/WORKLOAD/POSITION, with @ATTEMPT for an attempt before the latest.';
comment on function replica_behind is 'Return the age in seconds of the data that a replica shows; null on a server that is none.';
comment on function cancel_long_reads is 'Cancel queries of bench_reader that have run longer than this; return how many.';
comment on function rule_points is 'Return means of a run''s quantities over points of time, in canonical units, for rules.';
comment on function rule_cpu is 'Return cores used, available and in use on the host at each point, for rules.';
comment on function rule_window is 'Return the start of the whole window that holds a time; null where there is none.';
comment on function rule_windows is 'Return mean, 5th and 95th percentile of quantities over whole windows, for rules.';
comment on function rule_intervals is 'Return the intervals in which a condition holds for at least a minimum duration.';
comment on function rule_steps is 'Return the steps of a run that have ended, or its epochs where it has no steps, with their seconds.';
