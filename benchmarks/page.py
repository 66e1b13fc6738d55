"""How large is a page, how long to build and to open?  ``python -m benchmarks.page [length …]``, beside BertViz.

Without lengths: 4 layers of 4 heads over 1,024 tokens, D = 16, and one head over 131,072 tokens, D = 128, both causal
and float32.  Each page is built in a process of its own, inputs included in its memory, and opened in Chromium.
BertViz's own page asks a network for d3 and jQuery, so it is weighed and not opened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Layers, heads, tokens, width.
CASES = ((4, 4, 1024, 16), (1, 1, 131_072, 128))
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

BUILD = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
import overt
from overt.views import View
from overt.views.labels import Labelled
layers, heads, length, width = {case}
rng = np.random.default_rng(0)
parts = []
for layer in range(layers):
    q, k, v = (rng.standard_normal((heads, length, width), np.float32) * 1.5 for _ in range(3))
    parts.append(Labelled(overt.attend(q, k, v, mask=overt.causal()), layer=layer))
    del q, k, v
start, work = time.perf_counter(), time.process_time()
View(parts).page({path!r})
built, work = time.perf_counter() - start, time.process_time() - work
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(dict(megabytes=Path({path!r}).stat().st_size / 1e6, built=built, work=work, peak=peak)))
"""

BERTVIZ = """
import json, resource, time
import numpy as np, torch, overt
from bertviz import head_view
layers, heads, length, width = {case}
rng = np.random.default_rng(0)
weights = []
for layer in range(layers):
    q, k, v = (rng.standard_normal((heads, length, width), np.float32) * 1.5 for _ in range(3))
    weights.append(torch.from_numpy(overt.attend(q, k, v, mask=overt.causal()).weights[...])[None])
start, work = time.perf_counter(), time.process_time()
html = head_view(weights, [str(i) for i in range(length)], html_action="return")
built, work = time.perf_counter() - start, time.process_time() - work
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(dict(megabytes=len(html.data) / 1e6, built=built, work=work, peak=peak)))
"""

TILE = """() => {
  const part = overt.part, t = part.T - 256, s = Math.max(0, Math.floor(part.T / 2) - 256), times = [];
  for (let i = 0; i < 12; i++) {
    const start = performance.now();
    part.tile(0, 0, t, t + 256, s, s + 256);
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[6];
}"""

# From a key until its frame is drawn; the lists beside the matrix may come later.
ARROW = """async () => {
  const times = [], frame = () => new Promise((done) => requestAnimationFrame(done));
  overt.go(Math.floor(overt.rows.length / 2), Math.floor(overt.columns.length / 3));
  for (let i = 0; i < 15; i++) {
    await frame();
    const start = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    const frames = [...overt.scheduler.frames.values()];
    overt.scheduler.frames.clear();
    for (const act of frames) act();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[7];
}"""


def built(code: str, **names: Any) -> dict[str, float]:
    """What a process says of a page that it built."""
    done = subprocess.run([sys.executable, "-c", code.format(**names)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def opened(path: Path) -> dict[str, float]:
    """Seconds until the page answers, of clock and process; milliseconds of a 256 × 256 tile and of an arrow key."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("OVERT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(path.as_uri(), timeout=120_000)
        page.evaluate("overt.ready")
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000
        tile, arrow = page.evaluate(TILE), page.evaluate(ARROW)
        browser.close()
    return {"opens": ready, "opening": metrics["ProcessTime"], "tile": tile, "arrow": arrow}


COLUMNS = {
    "megabytes": "MB",
    "built": "built, s",
    "work": "of processors, s",
    "peak": "peak, MiB",
    "opens": "opens, s",
    "opening": "of its process, s",
    "tile": "256 × 256 tile, ms",
    "arrow": "arrow key, ms",
}


def main() -> None:
    cases = [(1, 1, int(length), 128) for length in sys.argv[1:]] or CASES
    print(
        "| | layers × heads, tokens, D | " + " | ".join(COLUMNS.values()) + " |\n" + "|---" * (2 + len(COLUMNS)) + "|"
    )
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            row("overt", case, built(BUILD, case=case, path=str(path)) | opened(path))
        # Its weights are a list of numbers in JSON; longer ones fill the memory of the machine.
        if find_spec("bertviz") and find_spec("torch") and case[2] <= 2048:
            row("BertViz", case, built(BERTVIZ, case=case))


def row(name: str, case: tuple[int, ...], found: dict[str, float]) -> None:
    cells = [f"{found[column]:.4g}" if column in found else "" for column in COLUMNS]
    print("| " + " | ".join([name, "{} × {}, {:,}, {}".format(*case), *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
