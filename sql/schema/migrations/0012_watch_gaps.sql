-- What a watch could not record is no end of the watch: a column tells them apart, no longer the beginning of the text.

alter table bench_internal.tensor_problems add column is_gap boolean not null default false;

update bench_internal.tensor_problems set is_gap = true, problem = substr(problem, 6) where problem like 'gap: %';
