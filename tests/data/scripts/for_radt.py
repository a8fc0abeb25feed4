"""A script that was written for radT: the two lines of its README, and the functions that it has besides."""

import sys

import radt

if "module" in sys.argv:
    for epoch in range(3):
        radt.log_metric("Metric A", epoch / 2, epoch)
        radt.log_metrics({"loss": 1 - epoch / 4}, epoch)
else:
    with radt.run.RADTBenchmark() as run:
        for epoch in range(3):
            run.log_metric("Metric A", epoch / 2, epoch)
            run.log_metrics({"loss": 1 - epoch / 4}, epoch)
        run.log_param("optimizer", "sgd")  # whatever MLflow has
print(radt.__file__)
