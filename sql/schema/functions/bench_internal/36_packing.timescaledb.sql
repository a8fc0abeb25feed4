-- Packing: TimescaleDB's columnstore does this work, and changes packed samples itself.

create or replace procedure bench_internal.pack(p_until timestamptz, p_samples integer default 250000, p_rest float8 default 0)
language plpgsql as 'begin end';

create or replace function bench_internal.unpack(p_place integer, p_from timestamptz) returns void language sql as '';
