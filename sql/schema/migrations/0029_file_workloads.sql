-- Which file a workload is of, and its number there: rows of several files in one experiment never share a workload.
create table file_workloads (
    experiment_id integer not null references experiments on delete cascade,
    source        text not null,           -- the file
    written       integer not null,        -- the workload's number in the file
    workload      integer not null,        -- and in the experiment
    primary key (experiment_id, source, written),
    unique (experiment_id, workload)
);

insert into file_workloads
select experiment_id, source, workload, workload from experiments join workloads using (experiment_id);
