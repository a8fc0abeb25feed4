-- What was imported stays apart from what is measured here: a host may be in both under one name, and what runs here must
-- not move the run sets of what ran elsewhere. `origin` is the capsule that it came in, empty for what is measured here.
alter table places add column origin text not null default '';
alter table places drop constraint places_kind_host_gpu_uuid_gpu_instance_id_run_id_key;
alter table places add unique nulls not distinct (kind, host, gpu_uuid, gpu_instance_id, run_id, origin);
alter table placements add column origin text not null default '';

-- Nobody here scrapes an imported series.
alter table series alter column target_id drop not null;

-- How many more were in the set, of whom a capsule says nothing else.
alter table run_sets add column others integer not null default 0;
