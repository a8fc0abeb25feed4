"""Real browser for tests of pages: headless Chromium, driven by its own protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import subprocess
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from tests.support.waiting import HUNG_SECONDS, wait_for

T = TypeVar("T")


class Browser:
    """Page of a browser, with its network requests and console errors."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._loop, self._socket, self._number = loop, socket, 0
        self._events: list[tuple[str, dict[str, Any]]] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; keep the events that arrive before its response."""
        return self._run(self._call(method, parameters))

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is drawn."""
        self._events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete'")
        self.frame()

    def frame(self) -> None:
        """Wait until the next frame is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, script: str) -> Any:
        """Return the value of an expression of JavaScript."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true."""
        wait_for(lambda: self.run(condition), condition)

    def screen(self, width: int, height: int = 900, *, dark: bool = False, mobile: bool = False) -> None:
        """Set the size and the color scheme of the page."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.frame()

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text, **_code(key))
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, **_code(key))
        self.frame()

    def mouse(self, kind: str, x: float, y: float, *, clicks: int = 0) -> None:
        """Send a mouse event of `kind` mouseMoved, mousePressed or mouseReleased."""
        button = {"button": "left", "buttons": 1, "clickCount": clicks} if clicks else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
        self.frame()

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Return left, top, width and height of an element on the screen."""
        found = self.run(
            f"(({{x, y, width, height}}) => [x, y, width, height])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        return tuple(found)

    def picture(self, path: Path) -> None:
        """Write a screenshot of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        """Return the printed page."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    @property
    def requests(self) -> list[str]:
        """URLs of the page's network requests."""
        urls = [event["request"]["url"] for name, event in self._events if name == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("file:", "data:"))]

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console."""
        found = [str(event) for name, event in self._events if name in ("Runtime.exceptionThrown", "Log.entryAdded")]
        calls = [event for name, event in self._events if name == "Runtime.consoleAPICalled"]
        return found + [str(event) for event in calls if event["type"] in ("error", "warning", "assert")]

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await asyncio.wait_for(self._socket.receive_json(), HUNG_SECONDS)
            if "method" in message:
                self._events.append((message["method"], message["params"]))
            elif message["id"] == self._number:
                assert "error" not in message, f"{method}: {message.get('error')}"
                result: dict[str, Any] = message["result"]
                return result

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


def _code(key: str) -> dict[str, int]:
    codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39}
    return {"windowsVirtualKeyCode": codes[key]} if key in codes else {}


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser; skip without one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed (Debian and Ubuntu: apt install chromium)")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--no-first-run", "--disable-background-networking", "--remote-debugging-port=0"]  # fmt: skip
    port = folder / "DevToolsActivePort"
    with subprocess.Popen(
        [program, *options, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            wait_for(lambda: process.poll() is not None or (port.exists() and port.read_text().strip()), program)
            assert process.poll() is None, f"{program} ended with status {process.returncode}"
            with asyncio.Runner() as runner:
                runner.run(asyncio.sleep(0))
                yield from _connected(runner.get_loop(), port.read_text().split()[0])
        finally:
            process.terminate()


def _connected(loop: asyncio.AbstractEventLoop, port: str) -> Iterator[Browser]:
    async def connect() -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]:
        session = aiohttp.ClientSession()
        async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = await answer.json()
        url = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        return session, await session.ws_connect(url, max_msg_size=0)

    session, socket = loop.run_until_complete(connect())
    try:
        yield Browser(loop, socket)
    finally:
        loop.run_until_complete(socket.close())
        loop.run_until_complete(session.close())
