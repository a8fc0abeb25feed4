-- Runs whose summary MLflow has as it is now. A row goes when the summary is written anew.
create table tracked_summaries (
    run_id      text primary key references runs on delete cascade,
    tracked_at  timestamptz not null default now()
);
