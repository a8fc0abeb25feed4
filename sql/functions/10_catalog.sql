-- The catalog of canonical quantities. Rows that a user has added stay; ours are brought to the state of this file.

insert into metrics (metric, match, quantity, unit, scale, kind, combine, preference, help) values
    -- host, in node_exporter's names
    ('node_cpu_seconds_total', '{}', 'cpu_usage', 'cores', 1, 'counter', 'sum', 1, 'Cores that were busy.'),
    ('node_cpu_seconds_total', '{"mode": "idle"}', 'cpu_idle', 'cores', 1, 'counter', 'sum', 1, 'Cores that had nothing to do.'),
    ('node_cpu_seconds_total', '{"mode": "iowait"}', 'cpu_iowait', 'cores', 1, 'counter', 'sum', 1, 'Cores that waited for a disk with nothing else to do.'),
    ('node_load1', '{}', 'load', 'processes', 1, 'gauge', 'max', 1, 'Processes running or waiting, mean of a minute.'),
    ('node_memory_MemTotal_bytes', '{}', 'memory_total', 'bytes', 1, 'gauge', 'sum', 1, 'Memory the host has.'),
    ('node_memory_MemAvailable_bytes', '{}', 'memory_available', 'bytes', 1, 'gauge', 'sum', 1, 'Memory that could be had without swapping.'),
    ('node_disk_read_bytes_total', '{}', 'disk_read', 'bytes/s', 1, 'counter', 'sum', 2, 'Read from disks.'),
    ('node_disk_written_bytes_total', '{}', 'disk_write', 'bytes/s', 1, 'counter', 'sum', 2, 'Written to disks.'),
    ('node_disk_io_time_seconds_total', '{}', 'disk_utilization', 'ratio', 1, 'counter', 'max', 1, 'Share of time a disk had work.'),
    ('node_network_receive_bytes_total', '{}', 'network_receive', 'bytes/s', 1, 'counter', 'sum', 1, 'Received from the network.'),
    ('node_network_receive_bytes_total', '{"device": "lo"}', 'loopback_receive', 'bytes/s', 1, 'counter', 'sum', 1, 'Received from the host itself.'),
    ('node_network_transmit_bytes_total', '{}', 'network_transmit', 'bytes/s', 1, 'counter', 'sum', 1, 'Sent to the network.'),
    ('node_network_transmit_bytes_total', '{"device": "lo"}', 'loopback_transmit', 'bytes/s', 1, 'counter', 'sum', 1, 'Sent to the host itself.'),
    ('node_pressure_cpu_waiting_seconds_total', '{}', 'cpu_pressure', 'ratio', 1, 'counter', 'max', 1, 'Share of time in which something waited for a core.'),
    ('node_pressure_io_waiting_seconds_total', '{}', 'io_pressure', 'ratio', 1, 'counter', 'max', 1, 'Share of time in which something waited for a disk.'),
    ('node_pressure_memory_waiting_seconds_total', '{}', 'memory_pressure', 'ratio', 1, 'counter', 'max', 1, 'Share of time in which something waited for memory.'),
    ('node_rapl_package_joules_total', '{}', 'cpu_power', 'watts', 1, 'counter', 'sum', 1, 'Power of the CPU packages.'),
    -- a run's process tree
    ('bench_process_cpu_seconds_total', '{}', 'cpu_usage', 'cores', 1, 'counter', 'sum', 1, 'Cores that the run kept busy.'),
    ('bench_process_proportional_memory_bytes', '{}', 'memory_used', 'bytes', 1, 'gauge', 'sum', 1, 'Memory of the run, shared pages divided among their users.'),
    ('bench_process_resident_memory_bytes', '{}', 'memory_used', 'bytes', 1, 'gauge', 'sum', 2, 'Memory of the run, shared pages counted for each process.'),
    ('bench_process_peak_memory_bytes', '{}', 'memory_peak', 'bytes', 1, 'gauge', 'sum', 1, 'Most memory the run has had so far.'),
    ('bench_process_read_bytes_total', '{}', 'disk_read', 'bytes/s', 1, 'counter', 'sum', 1, 'Read from disks by the run.'),
    ('bench_process_written_bytes_total', '{}', 'disk_write', 'bytes/s', 1, 'counter', 'sum', 1, 'Written to disks by the run.'),
    ('bench_process_threads', '{}', 'threads', 'threads', 1, 'gauge', 'sum', 1, 'Threads of the run.'),
    ('bench_process_processes', '{}', 'processes', 'processes', 1, 'gauge', 'sum', 1, 'Processes of the run.'),
    ('bench_process_start_time_seconds', '{}', 'start_time', 'seconds', 1, 'gauge', 'max', 1, 'When the run began, Unix time.'),
    -- GPUs, in dcgm-exporter's names
    ('DCGM_FI_DEV_GPU_UTIL', '{}', 'gpu_utilization', 'ratio', 0.01, 'gauge', 'mean', 2, 'Share of time in which a kernel ran.'),
    ('DCGM_FI_PROF_GR_ENGINE_ACTIVE', '{}', 'gpu_utilization', 'ratio', 1, 'gauge', 'mean', 1, 'Share of time in which the graphics or compute engine was active.'),
    ('DCGM_FI_PROF_SM_ACTIVE', '{}', 'gpu_sm_active', 'ratio', 1, 'gauge', 'mean', 1, 'Share of time in which a multiprocessor had a warp, mean over all.'),
    ('DCGM_FI_PROF_SM_OCCUPANCY', '{}', 'gpu_sm_occupancy', 'ratio', 1, 'gauge', 'mean', 1, 'Resident warps of those that would fit.'),
    ('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE', '{}', 'gpu_tensor_active', 'ratio', 1, 'gauge', 'mean', 1, 'Share of cycles in which the tensor pipe was active.'),
    ('DCGM_FI_PROF_DRAM_ACTIVE', '{}', 'gpu_memory_active', 'ratio', 1, 'gauge', 'mean', 1, 'Share of cycles in which device memory moved data.'),
    ('DCGM_FI_DEV_FB_USED', '{}', 'gpu_memory_used', 'bytes', 1048576, 'gauge', 'sum', 1, 'Device memory in use.'),
    ('DCGM_FI_DEV_POWER_USAGE', '{}', 'gpu_power', 'watts', 1, 'gauge', 'sum', 1, 'Power of the board.'),
    ('DCGM_FI_DEV_GPU_TEMP', '{}', 'gpu_temperature', 'celsius', 1, 'gauge', 'max', 1, 'Temperature of the GPU.'),
    ('DCGM_FI_DEV_SM_CLOCK', '{}', 'gpu_sm_clock', 'hertz', 1000000, 'gauge', 'mean', 1, 'Clock of the multiprocessors.')
on conflict (metric, match) do update set
    quantity = excluded.quantity, unit = excluded.unit, scale = excluded.scale, kind = excluded.kind,
    combine = excluded.combine, preference = excluded.preference, help = excluded.help;
