-- Packed samples in plain PostgreSQL: samples of closed hours as arrays, which take a twentieth of the space of rows.

alter table bench.samples rename to unpacked_samples;
alter table bench.unpacked_samples set schema bench_internal;
-- Packing empties pages for new rows. A vacuum must follow soon, whatever the size of the table.
alter table bench_internal.unpacked_samples set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000, autovacuum_vacuum_insert_threshold = -1);

-- Times and seconds of samples in a row, once for all series of a target that have the same. Buckets of a level, with their
-- number of samples and seconds, are null where aggregates are not stored: see `stores_level`.
create table bench_internal.packed_scrapes (
    scrapes_id  integer generated always as identity primary key,
    times       timestamptz[] not null,
    dts         real[] not null,
    buckets_10s timestamptz[],
    counts_10s  integer[],
    seconds_10s double precision[],
    buckets_1m  timestamptz[],
    counts_1m   integer[],
    seconds_1m  double precision[],
    buckets_10m timestamptz[],
    counts_10m  integer[],
    seconds_10m double precision[]
);

-- Samples of a series in a run set and an hour. Late samples add another row. All values are equal to `value`, or all have no
-- value, where both arrays are null. `singles` holds values that single precision represents exactly.
create table bench_internal.packed_samples (
    first      timestamptz not null,
    last       timestamptz not null,
    series_id  integer not null,
    runset_id  integer not null,
    scrapes_id integer not null,
    n          integer not null,
    value      double precision,
    singles    real[],
    doubles    double precision[],
    areas_10s  double precision[],
    lows_10s   double precision[],
    highs_10s  double precision[],
    areas_1m   double precision[],
    lows_1m    double precision[],
    highs_1m   double precision[],
    areas_10m  double precision[],
    lows_10m   double precision[],
    highs_10m  double precision[]
);
create index packed_samples_series on bench_internal.packed_samples (series_id, last, first);

-- PostgreSQL compresses rows above 2 kB only, but then down to this size.
alter table bench_internal.packed_scrapes set (toast_tuple_target = 128);
alter table bench_internal.packed_samples set (toast_tuple_target = 128);
