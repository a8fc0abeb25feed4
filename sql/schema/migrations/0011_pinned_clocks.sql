-- Only heat and power throttle a GPU: the other reasons are settings, with clocks as intended.

update bench.series set quantity = 'gpu_clocks_pinned'
where metric = 'bench_gpu_throttled' and quantity = 'gpu_throttled'
  and labels ->> 'reason' not in ('sw_power_cap', 'hw_slowdown', 'sw_thermal_slowdown', 'hw_thermal_slowdown', 'hw_power_brake_slowdown');
