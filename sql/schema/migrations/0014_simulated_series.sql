-- Series of simulated GPUs by resource: whether a run has one must not read its other series, nor those of other runs.

create index series_simulated on bench.series (place_id) where labels ->> 'simulated' = 'true';
