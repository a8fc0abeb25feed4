"""Real Slurm on loopback with two nodes on one machine, for tests to start, break and stop."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import psutil
import pytest

from hypergauge.core.services import free_port
from tests.support.waiting import HUNG_SECONDS

# Programs of a cluster, and of accounting.
_NEEDED = ("munged", "slurmctld", "slurmd", "scontrol", "sbatch", "srun")
_ACCOUNTING = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")
# Debian installs daemons outside a user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
# GPUs of a node by type, in the order of their indices: whole GPUs, and single MIG instances.
GPUS = {"h100": 4, "3g.20gb": 2}
ACCOUNT = "lab"

_SLURM_CONF = """\
ClusterName=bench
SlurmctldHost={controller}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
MailProg=/bin/true
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
PropagateResourceLimits=NONE
# Short, as far as Slurm lets them be: tests wait for these.
SlurmdTimeout=6
MessageTimeout=5
TCPTimeout=2
KillWait=5
CompleteWait=0
# A node may claim more than the machine has, and comes back by itself after its daemon was away.
SlurmdParameters=config_overrides
ReturnToService=2
GresTypes=gpu
{enforcement}
{accounting}
NodeName=DEFAULT CPUs=8 RealMemory=32000 Gres={gpus}
{nodes}
PartitionName=DEFAULT Nodes=ALL DefMemPerNode=2000 MaxTime=INFINITE
PartitionName=main Default=YES PriorityTier=1
PartitionName=urgent PriorityTier=2
"""
_BY_CONTROL_GROUPS = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup"""
_BY_POLLING = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherParams=OverMemoryKill"""
_CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
MinRAMSpace=10
"""
_WITH_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
# With munge this is where its socket lies.
AccountingStoragePass={folder}/munge/socket
AccountingStorageEnforce=associations"""
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={controller}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
"""


class SlurmCluster:
    """Controller, two nodes and, where the machine has the programs, accounting.

    The first node has the machine's own host name and receives jobs first; the second has a host name of its own where the
    kernel allows it. Partition ``main`` is the default, and jobs of ``urgent`` preempt its jobs. Each node has the fake GPUs
    of `GPUS`, and enforces a job's memory limit.

    Parameters
    ----------
    folder
        Folder of all files. Its path must be short, since it holds sockets.
    accounting
        Whether to run the database of ended jobs.
    """

    def __init__(self, folder: Path, *, accounting: bool = True) -> None:
        # Nodes of different clusters on one machine share control groups of equal names.
        token = f"t{secrets.token_hex(2)}"
        self.folder = folder
        self.nodes = (f"{token}n1", f"{token}n2")
        self.accounting = accounting and not _missing(_ACCOUNTING)
        self.control_groups = _control_groups_can_be_made(token)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Environment for Slurm commands of this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> Self:
        """Start all daemons, and wait until jobs can run."""
        self._write()
        self._start_munge()
        if self.accounting:
            self._start_accounting()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        _wait(lambda: all(self.state(node) == "idle" for node in self.nodes), "a running cluster", self._logs)
        return self

    def stop(self) -> None:
        """End every process, including jobs, and remove the control groups."""
        for node in self.nodes:
            self.kill_node(node)
        for name in reversed(list(self._daemons)):
            self._end(name, signal.SIGTERM)
        for root in Path("/sys/fs/cgroup").glob("*/slurm_*"):
            if root.name.removeprefix("slurm_") in self.nodes:
                for below in sorted(root.rglob("*/"), reverse=True):
                    below.rmdir()
                root.rmdir()

    def command(self, *words: str, status: int = 0) -> str:
        """Run one of Slurm's commands, and return both outputs."""
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=HUNG_SECONDS,
            env={**os.environ, **self.environment},
            check=False,
        )
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return (done.stdout + done.stderr).strip()

    def state(self, node: str) -> str:
        """State of a node: ``idle``, ``mixed``, ``down`` …, empty without the controller."""
        done = subprocess.run(
            ["sinfo", "-h", "-n", node, "-o", "%T", "-p", "main"],
            capture_output=True, text=True, env={**os.environ, **self.environment}, check=False,
        )  # fmt: skip
        return done.stdout.strip().rstrip("*")  # an asterisk: the node does not respond

    def job(self, job: str | int) -> dict[str, str]:
        """Fields of ``scontrol show job``."""
        return dict(
            word.split("=", 1)
            for word in self.command("scontrol", "-o", "show", "job", str(job)).split()
            if "=" in word
        )

    def start_controller(self) -> None:
        """Start the controller with its saved state."""
        self._begin("slurmctld", ["slurmctld", "-D"])

    def stop_controller(self) -> None:
        """Stop the controller: commands then wait for it, and fail; jobs continue.

        A graceful stop saves its state: a killed one would restart a job that it had just started.
        """
        self._end("slurmctld", signal.SIGTERM)

    def start_node(self, node: str) -> None:
        """Start a node's daemon."""
        words = ["slurmd", "-D", "-N", node]
        if node != self.nodes[0] and _host_names_can_be_had():
            words = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', node, *words]
        self._begin(node, words)

    def kill_node(self, node: str) -> None:
        """Kill all processes of a node at once, like a power failure."""
        self._end(node, signal.SIGKILL)
        while there := list(self._processes(node)):
            for process in there:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(there, timeout=5)

    def _processes(self, node: str) -> Iterator[psutil.Process]:
        log = str(self.folder / f"{node}.log")
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                variables = process.environ()
                if (
                    variables.get("SLURMD_NODENAME") == node  # jobs read their location from it,
                    or (process.name() == "slurmstepd" and any(file.path == log for file in process.open_files()))
                ):
                    yield process

    def _write(self) -> None:
        for name in ("munge", "state", "devices", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o755)  # permissions of the socket's folder grant access
        types = [name for name, count in GPUS.items() for _ in range(count)]
        devices = [self.folder / "devices" / f"gpu{index}" for index in range(len(types))]
        for device in devices:
            device.symlink_to(os.devnull)  # Slurm requires device files
        controller, port = socket.gethostname().split(".")[0], free_port()
        nodes = [
            f"NodeName={node} NodeHostname={controller} NodeAddr=127.0.0.1 Port={free_port()} Weight={weight}"
            for weight, node in enumerate(self.nodes, start=1)
        ]
        (self.folder / "slurm.conf").write_text(
            _SLURM_CONF.format(
                folder=self.folder, controller=controller, controller_port=free_port(), nodes="\n".join(nodes),
                gpus=",".join(f"gpu:{name}:{count}" for name, count in GPUS.items()),
                enforcement=_BY_CONTROL_GROUPS if self.control_groups else _BY_POLLING,
                accounting=_WITH_ACCOUNTING.format(folder=self.folder, port=port) if self.accounting else "",
            )
        )  # fmt: skip
        (self.folder / "gres.conf").write_text(
            "".join(f"Name=gpu Type={name} File={device}\n" for name, device in zip(types, devices, strict=True))
        )
        (self.folder / "cgroup.conf").write_text(_CGROUP_CONF)
        secret = self.folder / "slurmdbd.conf"
        secret.touch(0o600)
        secret.write_text(_SLURMDBD_CONF.format(folder=self.folder, controller=controller, port=port))

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        files = [
            f"--{option}={folder / name}"
            for option, name in {
                "key-file": "key",
                "socket": "socket",
                "pid-file": "pid",
                "log-file": "log",
                "seed-file": "seed",
            }.items()
        ]
        # Forced, because munge refuses a folder in one that all users can write to.
        self._begin("munged", ["munged", "--force", "--foreground", "--num-threads=2", *files])
        _wait((folder / "socket").exists, "munge's socket", self._logs)

    def _start_accounting(self) -> None:
        data, mysql = self.folder / "mariadb", self.folder / "mariadb.socket"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db", "--skip-name-resolve"],
            check=True, capture_output=True,
        )  # fmt: skip
        self._begin("mariadbd", [
            "mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={mysql}", f"--pid-file={self.folder / 'mariadb.pid'}",
            "--user=root", "--skip-networking", "--skip-grant-tables", "--innodb-flush-method=nosync",
        ])  # fmt: skip
        _wait(mysql.exists, "MariaDB's socket", self._logs)
        self._begin("slurmdbd", ["slurmdbd", "-D"], MYSQL_UNIX_PORT=str(mysql))
        _wait(lambda: self._answers("sacctmgr", "-n", "show", "cluster"), "accounting", self._logs)
        self.command("sacctmgr", "-i", "add", "cluster", "bench")
        self.command("sacctmgr", "-i", "add", "account", ACCOUNT)
        self.command("sacctmgr", "-i", "add", "user", "root", f"account={ACCOUNT}")

    def _answers(self, *words: str) -> bool:
        return (
            subprocess.run(words, capture_output=True, env={**os.environ, **self.environment}, check=False).returncode
            == 0
        )

    def _begin(self, name: str, words: Sequence[str], **variables: str) -> None:
        with (self.folder / f"{name}.output").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env={**os.environ, **self.environment, **variables, "PATH": _PATH},
            )  # fmt: skip

    def _end(self, name: str, how: signal.Signals) -> None:
        if daemon := self._daemons.pop(name, None):
            daemon.send_signal(how)
            try:
                daemon.wait(HUNG_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _logs(self) -> str:
        outputs = sorted(self.folder.glob("*.output")) + sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in outputs)


@contextlib.contextmanager
def slurm_cluster(folder: Path, *, accounting: bool = True) -> Iterator[SlurmCluster]:
    """Yield a running cluster; skip where none can run."""
    if missing := _missing(_NEEDED):
        pytest.skip(f"no Slurm: {', '.join(missing)} not found (apt install slurm-wlm)")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons start other users' programs, so only root can run them")
    cluster = SlurmCluster(folder, accounting=accounting)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def _missing(names: Sequence[str]) -> list[str]:
    return [name for name in names if shutil.which(name, path=_PATH) is None]


def _control_groups_can_be_made(name: str) -> bool:
    made = [Path("/sys/fs/cgroup") / controller / name for controller in ("memory", "freezer")]
    try:
        for path in made:
            path.mkdir()
    except OSError:
        return False
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
    return True


def _host_names_can_be_had() -> bool:
    return subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0


def _wait(condition: Callable[[], bool], what: str, logs: Callable[[], str], timeout: float = HUNG_SECONDS) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout:g} s\n{logs()}"
        time.sleep(0.05)
