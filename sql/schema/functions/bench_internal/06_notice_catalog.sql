-- Catalog of notices: facts without which a chart, a table or a report would mislead. A notice is data: a code, the labels of
-- its runs, and values in SI units and shares of 1. Severity, title and text are defined here and in 06_notice_texts.sql alone;
-- dashboards, commands, pictures and reports read them from there.

-- Return the catalog in the order in which notices are shown: code, severity, names of the values, and meaning. The value
-- `metrics` names quantities or software metrics; a list of numbers has one for each run. The value `reason` is a code of
-- `reason_catalog`, whose values are beside it.
create or replace function bench_internal.notice_catalog()
returns table (code text, severity text, "values" text[], about text) language sql immutable rows 40 as $$
    values ('no_runs', 'info', '{}'::text[], 'the database has no run'),
           ('no_runs_selected', 'info', '{}', 'the selection is empty'),
           ('replica_behind', 'warning', '{seconds}', 'the replica is more than 5 s behind'),
           ('measured', 'info', '{exporters,intervals,interval_seconds,coverage,overhead}', 'how the runs were measured; `intervals` are those of the exporters where they differ, `overhead` is the exporters'' share of the host''s cores'),
           ('measured_differently', 'info', '{exporters,intervals,interval_seconds,coverage,overhead}', 'the same for some of the runs, where others were measured differently'),
           ('measuring_costs', 'info', '{most,command,repetitions}', 'the most that the runs'' exporters cost a training on their host, by `bench calibrate`'),
           ('part', 'info', '{phase,from_seconds,to_seconds}', 'values of a part of each run'),
           ('outside_part', 'warning', '{}', 'runs without the chosen part'),
           ('not_aligned', 'warning', '{reason}', 'a run without a part in common with the others'),
           ('no_axis', 'warning', '{align}', 'runs without the axis of the chart'),
           ('runs_left_out', 'warning', '{metrics,total,drawn}', 'runs beyond the limit of a chart'),
           ('workloads_left_out', 'warning', '{total,drawn,workloads}', 'workloads beyond the limit of a chart'),
           ('bands_left_out', 'info', '{drawn}', 'workloads drawn without their range'),
           ('mean_of_fewer', 'warning', '{workloads}', 'workloads of which some runs ended before nine tenths of the longest: the mean is then over fewer runs'),
           ('devices_left_out', 'warning', '{total,drawn,devices}', 'devices beyond the limit of a chart'),
           ('gpus_left_out', 'warning', '{total,drawn}', 'GPUs of a run beyond the limit of a chart'),
           ('without_gpu', 'info', '{}', 'runs on no GPU, which the GPU ledger leaves out'),
           ('divided_evenly', 'warning', '{}', 'runs of the GPU ledger whose height is an even part of a shared GPU''s value'),
           ('without_own_values', 'warning', '{}', 'runs of the GPU ledger without a height'),
           ('range_mismatch', 'info', '{shown_seconds,longest_seconds}', 'the dashboard''s time range does not fit the longest run'),
           ('outside_range', 'info', '{}', 'a run outside the dashboard''s time range'),
           ('ended_early', 'warning', '{status,cause}', 'runs that failed, were stopped or reached a time limit, and why'),
           ('partial_process_coverage', 'warning', '{shares}', 'processes measured for less than 90 % of the time'),
           ('partial_gpu_coverage', 'warning', '{shares}', 'GPUs measured for less than 90 % of the time'),
           ('missing_metrics', 'warning', '{columns,reason}', 'a run lacks columns that it should have'),
           ('not_logged', 'warning', '{metrics}', 'a software metric that some runs did not log'),
           ('not_finite', 'warning', '{metrics,steps}', 'a software metric or watched loss that was NaN or infinite, and the first such step of each run'),
           ('not_measured', 'warning', '{metrics}', 'a quantity without samples'),
           ('scopes_differ', 'warning', '{metrics,scope}', 'scopes that differ between runs'),
           ('wide_scope', 'warning', '{metrics,scope}', 'values of a shared GPU or the whole host'),
           ('sources_differ', 'warning', '{metrics,sources}', 'sources that differ between runs'),
           ('intervals_differ', 'warning', '{metrics,interval_seconds}', 'intervals that differ between runs'),
           ('partial_coverage', 'warning', '{metrics,shares}', 'a quantity measured for less than 90 % of the time'),
           ('few_samples', 'warning', '{metrics,samples}', 'a mean of fewer than five readings of a gauge'),
           ('utilization_overstates', 'warning', '{metrics,better}', 'GPU utilization although `better` was measured'),
           ('throttled', 'warning', '{shares}', 'throttled GPU clocks, with the share of the time'),
           ('exporter_overhead', 'warning', '{shares}', 'exporters that took more than 1 % of the host''s cores'),
           ('shared_resource', 'warning', '{}', 'other runs on the same GPU or host'),
           ('other_programs', 'warning', '{other_cores,service_cores,cores,delays}', 'programs outside the runs'' workloads that may have cost them much of their time: cores that they used, those of hypergauge''s services, those of the hosts, and the most of its time that each run may have lost'),
           ('other_gpu_processes', 'warning', '{shares}', 'processes outside the runs'' workloads on the GPUs, with the share of time in which their kernels ran'),
           ('others_unmeasured', 'warning', '{where,exporters}', 'runs of a verdict beside which other programs were not measured: `where` is `host` or `gpu`, `exporters` measure them'),
           ('energy_divided', 'warning', '{}', 'runs with an equal part of the energy of several processes, such as MPS clients'),
           ('idle_power_unknown', 'warning', '{}', 'runs whose energy was divided before their GPUs or host were seen idle: their parts are too small'),
           ('simulated_gpu', 'warning', '{}', 'simulated GPUs, marked *'),
           ('profiled', 'warning', '{profilers}', 'a profiler, marked ◆'),
           ('watch_failed', 'warning', '{problems}', 'a training that was not watched to the end, and why'),
           ('watch_gaps', 'info', '{gaps}', 'a training of which the watch cannot record everything: what, why, and the remedy'),
           ('neighbours_changed', 'warning', '{changes}', 'other runs that began or ended: `at` (seconds from the start of the run), `run`, `what`, `status`'),
           ('more_neighbours_changed', 'warning', '{}', 'further runs whose neighbours changed'),
           ('never_alone', 'warning', '{configurations,set,workloads}', 'configurations of a set that never ran alone'),
           ('other_work', 'warning', '{configuration,set,workloads,work,beside,alone}', 'a configuration whose runs alone made other numbers of steps or epochs (`work`) than beside others, so that whole runs are not compared'),
           ('not_paced', 'warning', '{configuration,set,workloads,paced_by}', 'a configuration without steps or epochs, or none alone'),
           ('alone_on_part', 'warning', '{configuration,set,workloads,collocation}', 'a configuration that ran alone on a part of the GPU only'),
           ('faster_than_alone', 'warning', '{configuration,set,workloads,ratio}', 'a configuration that was faster beside others than alone, so that its runs alone were slowed down'),
           ('one_repetition', 'info', '{set,workloads}', 'a set without a confidence interval'),
           ('one_repetition_alone', 'info', '{set,workloads,configurations}', 'a set without a confidence interval, for lack of repetitions alone'),
           ('diluted', 'warning', '{members}', 'slowdowns over more than the common time: `configuration`, `set`, `share`'),
           ('not_compared', 'warning', '{reasons}', 'runs that the analysis leaves out; each of `reasons` is an object of `reason` and its values'),
           ('running', 'info', '{}', 'running runs'),
           ('not_started', 'info', '{}', 'runs that have not started')
$$;

-- Return the catalog of reasons: code, names of the values, and meaning.
create or replace function bench_internal.reason_catalog()
returns table (reason text, "values" text[], about text) language sql immutable rows 16 as $$
    values ('no_axis', '{align}'::text[], 'a run without the axis'),
           ('raw_samples_deleted', '{}', 'a run whose raw samples are deleted'),
           ('outside_part', '{}', 'a run without the chosen part'),
           ('gpus_shared_in_part', '{other}', 'a run that shares only some of its GPUs with `other`'),
           ('value_not_measured', '{}', 'a run without the value, which others have'),
           ('value_not_logged', '{}', 'a run that did not log the metric, which others of its program did'),
           ('value_not_finite', '{}', 'a run whose last value was NaN or infinite'),
           ('no_own_energy', '{}', 'a run without a measured energy of its own'),
           ('no_energy_curve', '{}', 'a run with an energy, but none over time'),
           ('gpus_simulated', '{}', 'simulated GPUs, without `--simulated`'),
           ('no_price', '{file,kind,name,priced}', 'a GPU or host without a price in the tariff; `priced` have one'),
           ('no_peak_flops', '{model}', 'a run with a device of unknown peak FLOPS; `model` is its model, null for the host'),
           ('target_missed', '{target,best}', 'a run that never reached the target; `best` is its best value'),
           ('metric_not_logged', '{key}', 'a run that did not log the target''s metric'),
           ('not_simultaneous', '{passes}', 'a workload whose latest attempts ran at different times; `passes` are the simultaneous runs'),
           ('run_running', '{run}', 'a running run'),
           ('run_ended_early', '{run,status,seconds}', 'a run that failed, was stopped or reached a time limit after `seconds`'),
           ('host_used_by_others', '{run,others}', 'runs of other workloads on the host of `run`, which had no GPU'),
           ('gpu_used_by_others', '{run,others}', 'runs of other workloads on the GPU of `run`'),
           ('other_programs', '{run,used,services,cores,gpu_share}', 'cores that other programs and hypergauge''s services used beside `run`, of those of its hosts, and the share of time in which other processes used its GPUs'),
           ('never_overlapped', '{}', 'runs of which at no time all were running')
$$;

-- Return the codes, in the order in which notices are shown.
create or replace function bench_dashboard.notice_codes() returns table (code text, severity text) language sql immutable rows 40 as $$
    select code, severity from notice_catalog()
$$;
