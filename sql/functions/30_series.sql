-- Series open when the collector first meets them.

-- The catalog's row for a metric with these labels: the one that matches with most labels.
create or replace function catalog_row(p_metric text, p_labels jsonb) returns metrics language sql stable as $$
    select m from metrics m where m.metric = p_metric and p_labels @> m.match
    order by (select count(*) from jsonb_object_keys(m.match)) desc limit 1
$$;

-- Opens series of one target, or finds them. `p_series` is an array of {"metric", "labels"}; answers in its order
-- (`ord` from 1). Where a series belongs shows in its labels: a run's id, or a GPU's UUID and instance, else the host.
create or replace function open_series(p_target integer, p_series jsonb)
returns table (ord bigint, series_id integer, place_id integer) language plpgsql as $$
#variable_conflict use_column
declare
    source targets;
begin
    select * into source from targets where target_id = p_target;
    return query
    with wanted as (
        select w.ord, w.item ->> 'metric' as metric, w.item -> 'labels' as labels
        from jsonb_array_elements(p_series) with ordinality as w(item, ord)
    ), placed as (
        select w.*, c.metric_id, coalesce(c.quantity, w.metric) as quantity,
               coalesce(w.labels ->> 'hostname', w.labels ->> 'Hostname', source.host) as host,
               w.labels ->> 'run_id' as run_id, w.labels ->> 'UUID' as uuid, nullif(w.labels ->> 'GPU_I_ID', '')::integer as gi
        from wanted w left join lateral catalog_row(w.metric, w.labels) c on true
    ), opened as (
        insert into series (target_id, metric, metric_id, quantity, place_id, host, device, labels)
        select p_target, p.metric, p.metric_id, p.quantity,
               case when p.run_id ~ '^[0-9a-f]{32}$' then place('process', p.host, null, null, p.run_id)
                    when p.uuid is not null and p.gi is not null then place('instance', p.host, p.uuid, p.gi, null)
                    when p.uuid is not null then place('gpu', p.host, p.uuid, null, null)
                    else place('host', p.host, null, null, null) end,
               p.host,
               case when p.uuid is not null then concat_ws('/', p.uuid, p.gi)
                    else coalesce(p.labels ->> 'device', p.labels ->> 'cpu') end,
               p.labels
        from placed p
        on conflict (target_id, metric, md5(labels::text)) do update set metric_id = excluded.metric_id,
            quantity = excluded.quantity
        returning series_id, place_id, metric, labels
    )
    select w.ord, o.series_id, o.place_id from wanted w join opened o using (metric, labels);
end $$;
