-- Health of trainings: reductions of tensors, and for each span the wait for data and the amount of work.

alter table bench.spans
    add column data_wait double precision check (data_wait >= 0),  -- seconds blocked on the data loader
    add column samples   double precision check (samples >= 0),
    add column tokens    double precision check (tokens >= 0),
    add column flops     double precision check (flops >= 0);      -- floating-point operations of the model

-- Tensors of a collection in a run, in the order of the arrays of `tensor_steps`. The client gives the id.
create table bench_internal.tensor_sets (
    run_id     text not null references bench.runs on delete cascade,
    tensor_set text not null,
    collection text not null,
    names      text[] not null,
    sizes      bigint[] not null,          -- number of elements
    primary key (run_id, tensor_set),
    check (cardinality(names) = cardinality(sizes))
);

-- Reductions of all tensors of a set at a step, an element for each tensor. An array is null where the client did not compute it,
-- an element is null where the result is not finite or does not apply.
create table bench_internal.tensor_steps (
    run_id       text not null,
    tensor_set   text not null,
    step         bigint not null,
    time         timestamptz not null,
    pid          integer,
    sizes        bigint[],                 -- null where they are those of the set
    norm         double precision,         -- l2 norm of all tensors together
    min          real[],
    max          real[],
    mean         real[],
    std          real[],
    l1           real[],
    l2           real[],
    zeros        real[],                   -- shares of the elements, 0 to 1
    nonfinite    real[],
    saturated    real[],
    update_ratio real[],                   -- l2 norm of the step's change over that of the weight before
    p05          real[],
    p25          real[],
    p50          real[],
    p75          real[],
    p95          real[],
    primary key (run_id, tensor_set, step, time),
    foreign key (run_id, tensor_set) references bench_internal.tensor_sets on delete cascade
);

-- Why the client recorded nothing more of a run.
create table bench_internal.tensor_problems (
    run_id  text not null references bench.runs on delete cascade,
    problem text not null,
    primary key (run_id, problem)
);

-- For notices of values that are NaN or infinite.
create index software_metrics_not_finite on bench.software_metrics (run_id) where value is null;
