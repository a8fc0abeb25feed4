# hypergauge's own image: the collector, exporters, the schema and MLflow's server, see docker-compose.yml.
FROM python:3.12.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/bench
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY cli cli
COPY client client
COPY collector collector
COPY core core
COPY dashboards dashboards
COPY exporters exporters
COPY gpu gpu
COPY insight insight
COPY scheduler scheduler
COPY simulation simulation
COPY sql sql
COPY src src
COPY stack stack
RUN /opt/bench/bin/pip install '.[all,s3]'

FROM python:3.12.13-slim-bookworm
# The folder that a volume is laid over gives it its owner.
RUN useradd --system --uid 10001 --home-dir /var/lib/bench --create-home --shell /usr/sbin/nologin bench
COPY --from=build /opt/bench /opt/bench
COPY --chmod=755 deploy/answers /usr/local/bin/answers
ENV PATH=/opt/bench/bin:$PATH BENCH_HOME=/var/lib/bench PYTHONUNBUFFERED=1
WORKDIR /var/lib/bench
USER 10001:10001
ENTRYPOINT ["bench"]
