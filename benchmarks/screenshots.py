"""Pictures of the page to look at: ``python -m benchmarks.screenshots [folder] [name …]`` (needs Chromium).

Every case on a desktop in the light and in the dark and on a phone: eleven tokens, a translation, numbers to edit,
thirty layers of nine heads, 1,024, 30,000 and 131,072 tokens.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

import overt
from benchmarks.page import FLAGS
from overt.views import View
from overt.views.labels import Labelled
from overt.views.lessons import LESSONS

ROOT = Path(__file__).parents[1]
IDLE = "() => new Promise((done) => { const wait = () => overt.busy ? setTimeout(wait, 50) : done(); wait(); })"
# Seconds to wait for pictures of heads in the background.
PATIENCE = 20_000
WAYS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1440, "height": 900}},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True},
}


def words(count: int) -> list[str]:
    """Tokens of a real text, again and again, marked as a vocabulary marks them."""
    text = [
        part
        for word in re.findall(r"\S+", (ROOT / "LICENSE").read_text("utf-8"))
        for part in (f"▁{word[:6]}", *re.findall(".{1,6}", word[6:]))
    ]
    return ["<s>", *(text * (1 + count // len(text)))][:count]


def model(layers: int, heads: int, length: int, width: int) -> list[Labelled]:
    """Heads as models have them: most lean on the first token, some look back by one, some to what came after."""
    random = np.random.default_rng(0)
    tokens, parts = words(length), []
    names = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    of_token = random.standard_normal((len(names), width))[[names[token] for token in tokens]]
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(width // 2) / (width // 2))
    place = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    for layer in range(layers):
        q, k = random.standard_normal((2, heads, length, width)) * 0.7
        for h in range(heads):
            kind = (layer * 5 + h * 3) % 7
            if kind in (0, 3, 5):
                k[h, 0] = q[h].mean(axis=0) + 2.5
                q[h] += 0.5
            elif kind == 1:
                q[h, 1:] += 6 * place[:-1]
                k[h] += 6 * place
            elif kind == 2:
                q[h] += 3 * of_token
                k[h, 1:] += 3 * of_token[:-1]
        q, k = q.astype(np.float32), k.astype(np.float32)
        parts.append(Labelled(overt.attend(q, k, k[..., :0], mask=overt.causal()), tokens, layer=layer, name="self"))
    return parts


def translation() -> View:
    from overt.cli.show import _of_translation

    return _of_translation("I love you.", "en-zh")


CASES: dict[str, tuple[Callable[[], View], tuple[str, ...]]] = {
    "eleven": (lambda: View(model(4, 4, 11, 16), title="Eleven tokens"), ("text", "matrix", "compare")),
    "translation": (translation, ("text", "matrix")),
    "john": (LESSONS["my-name-is-john"], ("steps", "text")),
    "deep": (lambda: View(model(30, 9, 256, 32), title="Thirty layers of nine heads"), ("matrix", "compare")),
    "thousand": (lambda: View(model(4, 4, 1024, 16), title="1,024 tokens"), ("matrix", "text")),
    "long": (lambda: View(model(1, 2, 30_000, 32), title="30,000 tokens"), ("matrix", "text")),
    "longest": (lambda: View(model(1, 1, 131_072, 64), title="131,072 tokens"), ("matrix",)),
}


def taken(browser: Browser, path: Path, folder: Path, name: str, tabs: tuple[str, ...]) -> None:
    """One picture for each way and tab; what the page complains of is printed."""
    for way, options in WAYS.items():
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        page.on("console", lambda message: print(name, message.text))
        page.on("pageerror", lambda error: print(name, error))
        page.goto(path.as_uri(), timeout=120_000)
        page.evaluate("overt.ready")
        for tab in tabs:
            page.evaluate(f"() => overt.tab('{tab}')")
            page.evaluate(f"() => Promise.race([({IDLE})(), new Promise((done) => setTimeout(done, {PATIENCE}))])")
            page.screenshot(path=folder / f"{name}-{tab}-{way}.png", full_page=way == "phone")
        context.close()


def main() -> None:
    program = os.environ.get("OVERT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as place:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for name in sys.argv[2:] or CASES:
            view, tabs = CASES[name]
            taken(browser, view().page(Path(place) / "page.html"), folder, name, tabs)
        browser.close()
    print(f"look at {folder}")


if __name__ == "__main__":
    main()
