-- Locks that only writers may take: any user may take any advisory lock, and so could stop all writing. Writers share a lock on
-- `retention`, whose row a move of the raw cutoff changes. The tables without columns are locks for other work.

create table bench_internal.pack_lock ();
create table bench_internal.packer_lock ();
create table bench_internal.import_lock ();

-- The raw cutoff before a move that has not finished, null otherwise. Until its end late samples wait in `late_samples`.
alter table bench_internal.retention add column moved_from timestamptz;
alter table bench_internal.late_samples set logged;
