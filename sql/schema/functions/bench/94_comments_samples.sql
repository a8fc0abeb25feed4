-- Comments on the relations of the contract about samples, their series, resources and targets.

comment on column samples.time is 'time of the scrape; the end of dt';
comment on column samples.series_id is 'series';
comment on column samples.runset_id is 'run set; 0 outside all runs';
comment on column samples.value is 'value of a gauge, or rate of a counter per second over dt; null where the source has none, or one beyond 1e150';
comment on column samples.dt is 'seconds that the sample stands for';

comment on view samples_10s is 'Samples by series and run set in buckets of 10 s. The mean is area / seconds, the total area.';
comment on column samples_10s.bucket is 'start of the bucket';
comment on column samples_10s.series_id is 'series';
comment on column samples_10s.runset_id is 'run set; 0 outside all runs';
comment on column samples_10s.n is 'number of samples';
comment on column samples_10s.seconds is 'seconds that the values stand for';
comment on column samples_10s.area is 'sum of value * dt';
comment on column samples_10s.min is 'smallest value';
comment on column samples_10s.max is 'largest value';

comment on view samples_1m is 'Samples by series and run set in buckets of 1 min. The mean is area / seconds, the total area.';
comment on column samples_1m.bucket is 'start of the bucket';
comment on column samples_1m.series_id is 'series';
comment on column samples_1m.runset_id is 'run set; 0 outside all runs';
comment on column samples_1m.n is 'number of samples';
comment on column samples_1m.seconds is 'seconds that the values stand for';
comment on column samples_1m.area is 'sum of value * dt';
comment on column samples_1m.min is 'smallest value';
comment on column samples_1m.max is 'largest value';

comment on view samples_10m is 'Samples by series and run set in buckets of 10 min. The mean is area / seconds, the total area.';
comment on column samples_10m.bucket is 'start of the bucket';
comment on column samples_10m.series_id is 'series';
comment on column samples_10m.runset_id is 'run set; 0 outside all runs';
comment on column samples_10m.n is 'number of samples';
comment on column samples_10m.seconds is 'seconds that the values stand for';
comment on column samples_10m.area is 'sum of value * dt';
comment on column samples_10m.min is 'smallest value';
comment on column samples_10m.max is 'largest value';

comment on view run_samples is 'Samples of runs in canonical units: a row per sample and run.';
comment on column run_samples.experiment_id is 'experiment';
comment on column run_samples.workload is 'number of the workload in the experiment';
comment on column run_samples.run_id is 'run';
comment on column run_samples.position is 'position in the workload';
comment on column run_samples.run is 'label, such as 20/1/3';
comment on column run_samples.quantity is 'canonical quantity';
comment on column run_samples.metric is 'name on the wire';
comment on column run_samples.unit is 'unit of value';
comment on column run_samples.scope is 'process, instance, device or host';
comment on column run_samples.host is 'host';
comment on column run_samples.device is 'device; null for none';
comment on column run_samples.time is 'time of the scrape';
comment on column run_samples.elapsed is 'seconds since the run''s start';
comment on column run_samples.value is 'value in the canonical unit; a counter''s is its rate';
comment on column run_samples.dt is 'seconds that the sample stands for';

comment on table series is 'Series: a metric of one target with one set of labels.';
comment on column series.series_id is 'id';
comment on column series.target_id is 'target; null where it was imported';
comment on column series.metric is 'name on the wire';
comment on column series.metric_id is 'row of the catalog; null where the catalog has none';
comment on column series.quantity is 'canonical quantity, else the metric''s name';
comment on column series.place_id is 'resource that it belongs to';
comment on column series.host is 'host';
comment on column series.device is 'device, such as a GPU''s UUID or a disk; null for none';
comment on column series.labels is 'labels as scraped and relabeled';
comment on column series.counts is 'whether it is a counter, by its source';

comment on table metrics is 'Catalog of known metrics and their canonical quantities and units.';
comment on column metrics.metric_id is 'id';
comment on column metrics.metric is 'name on the wire';
comment on column metrics.match is 'labels that a series has to have, as node_cpu_seconds_total is busy or idle by its mode';
comment on column metrics.quantity is 'canonical quantity, such as gpu_power';
comment on column metrics.unit is 'canonical unit';
comment on column metrics.scale is 'factor from the exposed value to the canonical unit';
comment on column metrics.resolution is 'what the sensor resolves: stored values of a gauge may differ by as much, in the unit of the exporter; null keeps them as read';
comment on column metrics.kind is 'gauge or counter';
comment on column metrics.combine is 'combination over devices and labels: sum, mean or max';
comment on column metrics.preference is 'rank among the sources of a quantity; the lowest counts';
comment on column metrics.whole_device is 'whether it is of a whole GPU, however many MIG instances repeat it';
comment on column metrics.help is 'description';
comment on column metrics.origin is 'capsule for whose series alone it counts; empty for all measured here';

comment on table places is 'Resources that series belong to: hosts, GPUs, MIG instances, process trees of runs.';
comment on column places.place_id is 'id';
comment on column places.kind is 'host, gpu, instance or process';
comment on column places.host is 'host';
comment on column places.gpu_uuid is 'GPU; null for a host or process tree';
comment on column places.gpu_instance_id is 'MIG instance on that GPU';
comment on column places.run_id is 'run of a process tree; null for other kinds, and for the collector''s own process';
comment on column places.origin is 'capsule that it was imported from; empty for a resource here';

comment on view devices is 'GPUs and MIG instances by display name.';
comment on column devices.place_id is 'resource';
comment on column devices.kind is 'gpu or instance';
comment on column devices.host is 'host';
comment on column devices.gpu_uuid is 'GPU';
comment on column devices.gpu_instance_id is 'MIG instance on that GPU; null for a whole one';
comment on column devices.device is 'display name, such as GPU 0 · 1g.10gb #7; * marks a simulated one';
comment on column devices.model is 'model';
comment on column devices.profile is 'MIG profile; null for a whole GPU';
comment on column devices.simulated is 'whether it is simulated';
comment on column devices.origin is 'capsule that it was imported from; empty for a device here';

comment on table run_sets is 'Run sets, a row for each run in a set: the runs on one resource during one interval. Samples carry the id of a set; 0 is no run and has no rows.';
comment on column run_sets.runset_id is 'id';
comment on column run_sets.place_id is 'resource';
comment on column run_sets.run_id is 'run in the set';
comment on column run_sets.scope is 'process, instance (to itself), device (a GPU shared with others) or host';
comment on column run_sets.started_at is 'start of the interval';
comment on column run_sets.ended_at is 'end of the interval; null while it lasts';
comment on column run_sets.others is 'number of runs of an imported set outside its capsule';

comment on table targets is 'Targets that collectors scrape.';
comment on column targets.target_id is 'id';
comment on column targets.host is 'host';
comment on column targets.listener is 'exporter';
comment on column targets.instance is 'host:port; empty for an exporter of hypergauge';
comment on column targets.url is 'URL';
comment on column targets.last_seen is 'time of the last scrape that succeeded, within some seconds';
comment on column targets.up is 'whether the last scrape succeeded';
comment on column targets.down_since is 'time since which it does not answer; null while it does';
comment on column targets.last_error is 'error of the last scrape; null where it succeeded';
comment on column targets.says_host is 'whether its labels name the host';
comment on column targets.collector is 'collector that scrapes it, by the source of its batches';
comment on column targets.collector_host is 'host of that collector';
comment on column targets.collector_pid is 'process of that collector';
comment on column targets.lease_until is 'end of the collector''s lease';
comment on column targets.held_since is 'time since which that collector has it';
comment on column targets.clock_offset is 'seconds by which the host''s clock is ahead of the collector''s';
comment on column targets.clock_uncertainty is 'seconds within which the offset is known';

comment on table batches is 'Batches of samples that have been written, in the transaction that wrote them.';
comment on column batches.source is 'collector''s spool';
comment on column batches.batch is 'number in that spool';
comment on column batches.written_at is 'time of the write';
