"""Fake of Docker: a program on the ``PATH``, and its daemon.

The program accepts the flags used here, and refuses others. As in Docker, a container is a process of the daemon: it has only
its own variables, its working directory, and the program's output. The program forwards signals, ends with the container's
status, and prints Docker's errors. Containers share the file system: unmounted folders are visible too, but the working
directory must exist.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import HUNG_SECONDS

__all__ = ["daemon", "install"]

IMAGE_ID = "sha256:" + "0f" * 32


def install(folder: Path, *images: str) -> Path:
    """Write the program to `folder`, which belongs in front of ``PATH``, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "docker"
    program.write_text(
        f"#!{sys.executable} -SE\nFOLDER = {str(folder)!r}\nIMAGES = {images!r}\nIMAGE_ID = {IMAGE_ID!r}\n{_PROGRAM}"
    )
    program.chmod(0o755)
    return program


@contextmanager
def daemon(program: Path) -> Iterator[None]:
    """Run the daemon of `program`; kill its containers at the end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    process = subprocess.Popen([program, "daemon"], stdout=subprocess.PIPE, env=clean, start_new_session=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.terminate()
        process.wait(HUNG_SECONDS)
        process.stdout.close()


_PROGRAM = r"""
import argparse, json, os, signal, socket, subprocess, sys, threading

SOCKET = os.path.join(FOLDER, "docker.sock")
AWAY = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


class Daemon:
    def __init__(self):
        self.containers, self.lock = {}, threading.Lock()

    def serve(self):
        listening = socket.socket(socket.AF_UNIX)
        os.chdir(FOLDER)
        listening.bind("docker.sock")
        listening.listen()
        print("ready", flush=True)
        while True:
            client, _ = listening.accept()
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        with client:
            message, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 2)
            request = json.loads(message)
            response = getattr(self, request.pop("what"))(descriptors, **request)
            client.sendall(json.dumps(response).encode())
            for descriptor in descriptors:
                os.close(descriptor)

    def run(self, descriptors, name, words, environment, directory):
        with self.lock:
            if name in self.containers:
                return [125, f'docker: Error response from daemon: Conflict. The container name "/{name}" is already in use']
            try:
                process = subprocess.Popen(
                    words, env=environment, cwd=directory, stdin=subprocess.DEVNULL,
                    stdout=descriptors[0], stderr=descriptors[1], start_new_session=True,
                )
            except OSError as error:
                what = f'exec: "{words[0]}": {error.strerror}'
                return [127, f"docker: Error response from daemon: failed to create task for container: {what}"]
            self.containers[name] = process
        status = process.wait()
        with self.lock:
            del self.containers[name]
        return [status if status >= 0 else 128 - status, ""]

    def kill(self, descriptors, name, number):
        with self.lock:
            process = self.containers.get(name)
            if process is None:
                return [1, f"Error response from daemon: No such container: {name}"]
            os.killpg(process.pid, number)
            return [0, name]

    def end(self, *_):
        for process in self.containers.values():
            os.killpg(process.pid, signal.SIGKILL)
        os.unlink(SOCKET)
        os._exit(0)


def call(what, descriptors=(), **request):
    connection = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(FOLDER)  # the path of a socket is short
        connection.connect("docker.sock")
    except OSError:
        sys.exit(AWAY)
    finally:
        os.fchdir(here)
    socket.send_fds(connection, [json.dumps({"what": what, **request}).encode()], list(descriptors))
    answer = b""
    while part := connection.recv(4096):
        answer += part
    return json.loads(answer) if answer else [1, AWAY]


def run(given):
    path = os.path.dirname(sys.executable) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = {"PATH": path, "HOSTNAME": "host"}
    for entry in given.env:
        name, equals, value = entry.partition("=")
        if equals:
            environment[name] = value
        elif name in os.environ:
            environment[name] = os.environ[name]
    mounted = []
    for mount in given.mount:
        fields = dict(field.partition("=")[::2] for field in mount.split(","))
        if fields["type"] != "bind" or set(fields) - {"type", "source", "target", "readonly"}:
            sys.exit(f'invalid argument "{mount}" for "--mount" flag')
        if not os.path.exists(fields["source"]):
            print(f"docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does "
                  f"not exist: {fields['source']}", file=sys.stderr)
            sys.exit(125)
        mounted.append(fields["target"])
    if given.workdir and not any(os.path.commonpath([given.workdir, target]) == target for target in mounted):
        sys.exit("the stand-in has no such folder in its image: " + given.workdir)
    if given.image not in IMAGES:
        print(f"docker: Error response from daemon: No such image: {given.image}", file=sys.stderr)
        sys.exit(125)
    if given.gpus:
        sys.exit('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]')
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: call("kill", name=given.name, number=number))
    status, message = call(
        "run", (1, 2), name=given.name, words=given.command, environment=environment, directory=given.workdir
    )
    if message:
        print(message, file=sys.stderr)
    sys.exit(status)


def remove(given):
    status, message = call("kill", name=given.container, number=signal.SIGKILL)
    print(message, file=sys.stderr if status else sys.stdout)


def inspect(given):
    if not os.path.exists(SOCKET):
        sys.exit(AWAY)
    if given.image not in IMAGES:
        print("")
        sys.exit(f"Error response from daemon: No such image: {given.image}")
    print(IMAGE_ID)


if sys.argv[1:] == ["daemon"]:
    daemon = Daemon()
    signal.signal(signal.SIGTERM, daemon.end)
    daemon.serve()
parser = argparse.ArgumentParser("docker", allow_abbrev=False)
commands = parser.add_subparsers(required=True)
command = commands.add_parser("run", allow_abbrev=False)
for flag in ("--rm", "--init", "--interactive"):
    command.add_argument(flag, action="store_true")
for flag in ("--env", "--mount"):
    command.add_argument(flag, action="append", default=[])
command.add_argument("--pull", choices=["always", "missing", "never"])
for flag in ("--name", "--network", "--ipc", "--user", "--gpus", "--workdir"):
    command.add_argument(flag)
command.add_argument("image")
command.add_argument("command", nargs=argparse.REMAINDER)
command.set_defaults(act=run)
command = commands.add_parser("rm", allow_abbrev=False)
command.add_argument("--force", action="store_true", required=True)
command.add_argument("container")
command.set_defaults(act=remove)
command = commands.add_parser("image", allow_abbrev=False).add_subparsers(required=True).add_parser("inspect")
command.add_argument("--format", choices=["{{.Id}}"])
command.add_argument("image")
command.set_defaults(act=inspect)
given = parser.parse_args()
given.act(given)
"""
