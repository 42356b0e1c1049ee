# A phone with fingers: headless chromium by its DevTools protocol, through a pipe.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import subprocess
import time

PATIENCE_SECONDS = 300  # of a page on a busy machine
TRIES = 5  # of a gesture there


class Phone:
    def __init__(self, browser, folder):
        in_read, self.to = os.pipe()
        self.of, out_write = os.pipe()

        def pipes():  # the browser reads 3 and writes 4
            ends = os.dup(in_read), os.dup(out_write)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={folder}/phone", "about:blank"],
            preexec_fn=pipes, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(in_read)
        os.close(out_write)
        self.number, self.answers, self.session = 0, b"", {}
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)  # it ends when nobody can ask any more
        self.process.wait()
        os.close(self.of)

    def ask(self, method, **params):
        self.number += 1
        os.write(self.to, json.dumps({"id": self.number, "method": method, "params": params, **self.session}).encode() + b"\0")
        while True:
            while b"\0" not in self.answers:
                more = os.read(self.of, 1 << 20)
                assert more, "the browser is gone"
                self.answers += more
            answer, self.answers = self.answers.split(b"\0", 1)
            answer = json.loads(answer)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def value(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def until(self, script):
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.value(script):
            assert time.monotonic() < end, script
            time.sleep(0.02)

    def open(self, path, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=3, mobile=True)
        self.ask("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=5)
        self.ask("Page.navigate", url=f"file://{path}")
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def touch(self, *ways):
        """A finger goes each way, from its first to its last place."""
        steps = 10 if len(ways[0]) > 1 else 0
        for step in range(steps + 1):
            places = [{"x": way[0][0] + (way[-1][0] - way[0][0]) * step / (steps or 1),
                       "y": way[0][1] + (way[-1][1] - way[0][1]) * step / (steps or 1), "id": i} for i, way in enumerate(ways)]
            self.ask("Input.dispatchTouchEvent", type="touchMove" if step else "touchStart", touchPoints=places)
            time.sleep(0.02)
        self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def persist(self, action, condition):
        """Until that is so: on a busy machine a tap may take so long that it is none."""
        for _ in range(TRIES):
            action()
            for _ in range(30):
                if condition():
                    time.sleep(0.3)  # for what is on its way
                    return
                time.sleep(0.1)

    def box(self, name):
        """Of an element: left, top, width, height, when it has come to the top of the screen, or as near as it can."""
        return self.value(f"(() => {{ const e = document.getElementById('{name}'); e.scrollIntoView(); "
                          "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")

    def text(self, name):
        return self.value(f"document.getElementById('{name}').textContent")
