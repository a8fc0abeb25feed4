-- What other programs used of the hosts and GPUs of runs, stored with the summary.

create table bench_internal.stored_contention (
    run_id             text primary key references bench.runs on delete cascade,
    cores              double precision,  -- of its hosts
    workload_cores     double precision,  -- used by the runs of its workload
    other_run_cores    double precision,  -- used by runs of other workloads
    other_cores        double precision,  -- used by processes outside all runs
    service_cores      double precision,  -- used by services and exporters of hypergauge
    cpu_pressure       double precision,  -- share of time in which a process waited for a core
    other_runs         integer not null,  -- runs of other workloads on its hosts
    gpu_other_processes double precision, -- processes outside all runs on its GPUs
    gpu_other_memory   double precision,  -- their device memory in bytes
    gpu_other_share    double precision,  -- share of time in which their kernels ran
    delay              double precision   -- largest share of the run's time that all of these may have cost
);

-- Functions with other columns than in the releases before.
drop function if exists bench_internal.sharing_runs(text[]);
drop function if exists bench_internal.sharing_members(text[]);
drop function if exists bench_internal.sharing_sets(text[]);
drop function if exists bench_dashboard.run_costs(text[]);
