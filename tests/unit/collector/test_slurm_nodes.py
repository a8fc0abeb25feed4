"""Slurm's node list as a source of targets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hypergauge.collector.discovery import slurm
from hypergauge.collector.discovery.config_file import read_config
from hypergauge.collector.discovery.scrape_config import Slurm
from hypergauge.collector.discovery.slurm import Node, nodes, of_partitions, parse
from hypergauge.collector.discovery.targets import populate
from hypergauge.core.errors import BadRequest, BenchError

# As Slurm 22.05 prints it, with a reason and a comment that somebody wrote.
NODES = """\
NodeName=gpu1 Arch=x86_64 CoresPerSocket=16 CPUAlloc=8 CPUEfctv=32 CPUTot=32 CPULoad=4.2 AvailableFeatures=h100,ib \
ActiveFeatures=h100,ib Gres=gpu:h100:4(S:0-1) NodeAddr=10.0.0.1 NodeHostName=gpu1 Version=22.05.8 \
OS=Linux 6.1.0-13-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1 RealMemory=512000 State=MIXED ThreadsPerCore=1 TmpDisk=0 \
Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,all BootTime=2026-11-20T08:00:00 Comment=bought for State=of the art
NodeName=gpu2 ActiveFeatures=(null) Gres=(null) NodeAddr=fd00::2 NodeHostName=gpu2-ib State=IDLE*+DRAIN+NOT_RESPONDING \
Partitions=gpu Reason=fan Speed=0 [root@2026-11-21T09:00:00]
NodeName=cpu1 NodeAddr=cpu1 NodeHostName=cpu1 State=DOWN* Partitions=all Reason=Not responding [slurm@2026-11-21T09:00:00]
NodeName=cloud1 NodeAddr=cloud1 NodeHostName=cloud1 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud
NodeName=spare1 NodeAddr=spare1 NodeHostName=spare1 State=IDLE
"""


def by_name() -> dict[str, Node]:
    return {node.name: node for node in parse(NODES)}


def test_what_slurm_says_of_a_node() -> None:
    found = by_name()
    assert list(found) == ["gpu1", "gpu2", "cpu1", "cloud1", "spare1"]
    assert found["gpu1"] == Node(
        "gpu1", "gpu1", "10.0.0.1", ("MIXED",), ("gpu", "all"), ("h100", "ib"), "gpu:h100:4(S:0-1)"
    )
    assert found["gpu2"] == Node("gpu2", "gpu2-ib", "fd00::2", ("IDLE", "DRAIN", "NOT_RESPONDING"), ("gpu",), (), "")
    assert list(parse("No nodes in the system\n")) == []


def test_which_nodes_are_there() -> None:
    every = list(parse(NODES))
    assert [node.name for node in of_partitions(every, ())] == ["gpu1", "gpu2", "spare1"]
    assert [node.name for node in of_partitions(every, ("all", "cloud"))] == ["gpu1"]
    with pytest.raises(BadRequest, match=r"Slurm has no partition 'gpus' with nodes \(did you mean 'gpu'\?\)"):
        of_partitions(every, ("gpus",))


def test_what_relabeling_is_told(tmp_path: Path) -> None:
    file = tmp_path / "targets.yml"
    file.write_text("""
scrape_configs:
  - job_name: nvml
    slurm_sd_configs: [{port: 9703, partitions: [gpu], refresh_interval: 30s}]
    relabel_configs:
      - {source_labels: [__meta_slurm_partitions], regex: ".*,gpu,.*", action: keep}
      - {source_labels: [__meta_slurm_gres], target_label: gres}
""")
    [config] = read_config(file, 1.0)
    [service] = config.services
    assert service == Slurm(9703, ("gpu",), 30.0)
    one, two = (populate(config, node.labels(9703)) for node in of_partitions(list(parse(NODES)), ("gpu",)))
    assert one is not None
    assert two is not None
    assert (one.key, one.url) == (("gpu1", "nvml", "10.0.0.1:9703"), "http://10.0.0.1:9703/metrics")
    assert one.labels["gres"] == "gpu:h100:4(S:0-1)"
    assert (two.key, two.url) == (("gpu2-ib", "nvml", "[fd00::2]:9703"), "http://[fd00::2]:9703/metrics")


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program of this name on the path that does what a shell is told."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def write(script: str) -> None:
        (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "scontrol").chmod(0o755)

    return write


def test_slurm_is_asked(scontrol: Callable[[str], None]) -> None:
    scontrol(f"""test "$*" = "show nodes --oneliner" && cat <<'END'\n{NODES}\nEND""")
    assert asyncio.run(nodes()) == list(parse(NODES))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "scontrol cannot be run: No such file or directory"),
        (
            "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1",
            "scontrol: slurm_load_node error:",
        ),
        ("exit 3", "scontrol: it ended with status 3"),
        ("exec sleep 60", "scontrol gave no answer in 0.2 s"),
    ],
    ids=["absent", "away", "silent", "hangs"],
)
def test_slurm_does_not_answer(
    scontrol: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, script: str | None, said: str
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", "/nowhere")
    else:
        scontrol(script)
    monkeypatch.setattr(slurm, "_SECONDS", 0.2 if script and "sleep" in script else 30.0)
    with pytest.raises(BenchError) as raised:
        asyncio.run(nodes())
    assert f"Slurm's nodes are not known: {said}" in str(raised.value)
