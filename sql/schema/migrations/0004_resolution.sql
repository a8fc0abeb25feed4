-- Resolution of sensors. The collector rounds a gauge to it, since further digits are noise and take most of a sample's space.

alter table bench.metrics add column resolution double precision check (resolution is null or resolution > 0 and kind = 'gauge');
drop function if exists bench_internal.open_series(integer, jsonb);  -- its columns change
