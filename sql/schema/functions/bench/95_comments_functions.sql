-- Comments on the functions of the contract.

comment on function run_chart is 'Return points of run metrics in canonical units, from the relation that fits the step in milliseconds: the mean over each step, its least and its greatest sample. Null start and stop: all of the runs. Null scopes: the narrowest that covers each run. Null parts: whole runs.';
comment on function workload_chart is 'Return points of workload metrics in canonical units: the mean over the runs of each workload with a value at that time, and the least and greatest sample of any of them.';
comment on function tensor_chart is 'Return a reduction of tensors over the steps of runs: a row for each tensor and step, or one for a statistic over tensors. Null names: all tensors of the collection. Processes of a run are averaged; of min, max and nonfinite the extreme counts.';
comment on function chart_axis is 'Return the range of a run on an axis (time, step, epoch, phase), as positions and as times; no row where it has none.';
comment on function run_label is 'Return the label of a run: EXPERIMENT/WORKLOAD/POSITION, with @ATTEMPT for an attempt before the latest.';
comment on function replica_behind is 'Return the age in seconds of the data that a replica shows; null on a server that is none.';
comment on function cancel_long_reads is 'Cancel queries of readers that have run longer than this, and end their sessions that have idled so long in a transaction or with a lock; return how many.';
comment on function rule_points is 'Return means of a run''s quantities over points of time, in canonical units, as run_chart draws them, for rules; low and high are the least and greatest sample.';
comment on function rule_cpu is 'Return cores used by a run and available to it at each point, and cores in use, waiting for I/O and in total on its host, with the host''s CPU pressure, for rules.';
comment on function rule_window is 'Return the start of the window that holds a time, for rules; null before p_skip after the run''s start, and for a window that is not wholly evaluated.';
comment on function rule_windows is 'Return mean, 5th and 95th percentile of points over whole windows of which at least half was measured, for rules.';
comment on function rule_intervals is 'Return the intervals in which a condition holds from point to point for at least a minimum duration, for rules. One that still holds at p_stop has no ended_at; until is the end of its last point.';
comment on function rule_steps is 'Return the steps of a run that have ended, or its epochs where it has no steps, with their seconds.';
comment on function rule_tensors is 'Return the watched steps of a run''s collections of tensors, with the arrays of their reductions, for rules; only every nth step where there are too many elements.';
comment on function rule_streaks is 'Return the intervals in which tensors were found at several watched steps in a row, with the tensors as evidence, for rules.';
comment on function rule_losses is 'Return the training and validation losses of a run from tensors and software metrics, for rules; preferred marks the series of each kind that a rule follows.';
comment on function rule_evaluations is 'Return the evaluations of a run, each with its validation loss and the mean training loss since the one before, for rules.';
comment on function rule_inputs is 'Return which inputs of rules a run has: collections of tensors, losses, steps, phases, gpus.';
comment on function rule_learned is 'Return the time at which a run''s training loss has fallen to a share of its start, for rules; infinity if it has not.';
