"""A headless Chromium that is driven over a pipe, by its DevTools protocol: clicks, keys, numbers, requests."""

import base64
import json
import os
import shutil
import subprocess
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "PAGE NOT LOOKED AT: no Chromium on PATH (Debian package `chromium`, see CONTRIBUTING)"


class Browser:
    """One page. `with Browser(folder) as browser: browser.open(file)`."""

    def __init__(self, folder, width=1000, dark=False):
        self._folder, self._width, self._dark = folder, width, dark
        self._number, self._buffer, self.events = 0, b"", []

    def __enter__(self):
        out_read, self._write = os.pipe()
        self._read, in_write = os.pipe()
        command = [
            CHROMIUM, "--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--no-sandbox",
            f"--user-data-dir={self._folder / 'profile'}", "--remote-debugging-pipe",
            "--host-resolver-rules=MAP * ~NOTFOUND", "about:blank",
        ]  # fmt: skip

        def as_descriptors_3_and_4():
            os.dup2(out_read, 103)
            os.dup2(in_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=as_descriptors_3_and_4,
        )  # fmt: skip
        os.close(out_read)
        os.close(in_write)
        target = self._ask("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, None)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        size = {"width": self._width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def ask(self, method, **parameters):
        return self._ask(method, parameters, self._session)

    def _ask(self, method, parameters, session):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._write, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def open(self, file):
        self.ask("Page.navigate", url=file.as_uri())

    def evaluate(self, expression):
        """The value of a JavaScript expression, awaited."""
        found = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression, seconds=60):
        """Wait until the expression holds; how long that took."""
        began = time.monotonic()
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() - began < seconds, f"not within {seconds} s: {expression}"
            time.sleep(0.02)
        return time.monotonic() - began

    def mouse(self, kind, x, y, buttons=0):
        button = "left" if buttons or kind == "mouseReleased" else "none"
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)

    def key(self, key, code=None, text=""):
        for kind in ("keyDown", "keyUp"):
            typed = text if kind == "keyDown" else ""
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, text=typed)

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def requests(self):
        """Addresses that the page asked for, but itself and what it made itself."""
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("blob:", "about:", "data:"))]

    def complaints(self):
        """Exceptions and errors of the console."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in kinds]
