"""Fake of NVIDIA's ``nvidia-cuda-mps-control`` on the ``PATH``.

Input, output and files follow NVIDIA's manual. It does not detect CUDA clients, so it starts a server only on request.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["NAME", "installed_mps"]

NAME = "nvidia-cuda-mps-control"


def installed_mps(folder: Path) -> Path:
    """Write the program to `folder`, which belongs in front of ``PATH``, and return the folder.

    With ``FAKE_MPS_REFUSES`` in its environment, the program prints its value and does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(f"#!{sys.executable} -SE\n{_PROGRAM}")
    path.chmod(0o755)
    return folder


_PROGRAM = """
import os, signal, socket, sys, time

PIPES = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
LOGS = os.environ.get("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps")
PID, CONTROL = f"{PIPES}/nvidia-cuda-mps-control.pid", f"{PIPES}/control"


def log(text):
    with open(f"{LOGS}/control.log", "a") as file:
        file.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')} Control {os.getpid()}] {text}\\n")


def running():
    try:
        os.kill(int(open(PID).read()), 0)
    except (OSError, ValueError):
        return False
    return True


def daemon(background):
    if os.environ.get("FAKE_MPS_REFUSES"):
        sys.exit(os.environ["FAKE_MPS_REFUSES"])
    if running():
        print("An instance of this daemon is already running")
        sys.exit(1)
    for folder in (PIPES, LOGS):
        os.makedirs(folder, exist_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    if os.path.exists(CONTROL):
        os.unlink(CONTROL)
    listening.bind(CONTROL)  # too long a path fails, as there
    listening.listen()
    if background:
        if os.fork():
            os._exit(0)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
    with open(PID, "w") as file:
        file.write(str(os.getpid()))
    log("Start")
    log(f"Devices {os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}")
    percentage, server = 100.0, None
    while True:
        client, _ = listening.accept()
        with client:
            answer = []
            for line in client.makefile().read().splitlines():
                words = line.split()
                log(f"NEW CONTROL {line}")
                if words[:1] == ["quit"] and (len(words) == 1 or words[1] == "-t"):
                    if server:
                        os.kill(server, signal.SIGKILL)
                        os.waitpid(server, 0)
                    os.unlink(CONTROL)
                    os.unlink(PID)
                    log("Exit")
                    os._exit(0)
                elif words == ["get_server_list"]:
                    answer += [str(server)] if server else []
                elif words[:2] == ["start_server", "-uid"] and len(words) == 3:
                    if server is None:
                        server = os.fork()
                        if server == 0:
                            listening.close()
                            client.close()
                            while True:
                                signal.pause()
                elif words == ["get_default_active_thread_percentage"]:
                    answer.append(str(percentage))
                elif words[:1] == ["set_default_active_thread_percentage"] and len(words) == 2:
                    percentage = float(words[1])
                elif words:
                    answer.append(f"Command {words[0]} not recognized")
            client.sendall("".join(f"{line}\\n" for line in answer).encode())


def control():
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(CONTROL)
    except OSError:
        print(f"Cannot find MPS control daemon process")
        sys.exit(1)
    client.sendall(sys.stdin.buffer.read())
    client.shutdown(socket.SHUT_WR)
    sys.stdout.write(client.makefile().read())


match sys.argv[1:]:
    case []:
        control()
    case ["-d"]:
        daemon(True)
    case ["-f"]:
        daemon(False)
    case [unknown, *_]:
        print(f"{sys.argv[0]}: invalid option -- '{unknown.lstrip('-')}'\\nUsage: nvidia-cuda-mps-control [-d | -f]")
        sys.exit(1)
"""
