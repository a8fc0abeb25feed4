-- What a run was profiled with, joined by +: its times are not those of a plain run.
alter table runs add column profilers text not null default '';
