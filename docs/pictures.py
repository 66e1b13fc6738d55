"""Take the pictures of docs/show.md from real results (needs Chromium and playwright)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from io import StringIO
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console

import overt
from overt.views import View, terminal
from overt.views.lessons import LESSONS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
from induction import attend_to_text  # noqa: E402

DOCS = ROOT / "docs"


IDLE = "() => new Promise((done) => { const wait = () => overt.busy ? setTimeout(wait, 50) : done(); wait(); })"
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PAPER = "body{margin:0;display:inline-block;padding:14px;background:#fff}"
MONO = "pre{margin:0;font:14px/1.2 'DejaVu Sans Mono',monospace}"


def settle(page: Page) -> None:
    """Wait until nothing is left to compute or to draw."""
    for step in (PAINTED, IDLE, PAINTED):
        page.evaluate(step)


def opened(
    browser: Browser, view: View, folder: str, *, width: int = 1180, height: int = 860, scheme: str = "light"
) -> Page:
    path = view.page(Path(folder) / "page.html")
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(path.as_uri())
    page.evaluate("overt.ready")
    settle(page)
    return page


def in_terminal(browser: Browser, view: View, path: Path) -> None:
    """What a terminal with colours shows."""
    console = Console(
        file=StringIO(), record=True, width=92, highlight=False, color_system="truecolor", force_terminal=True
    )
    terminal.show(view, console=console)
    page = browser.new_context(viewport={"width": 100, "height": 100}, device_scale_factor=1.25).new_page()
    body = console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    page.set_content(f"<!doctype html><style>{PAPER}{MONO}</style><body>{body}")
    page.locator("body").screenshot(path=path)


def main() -> None:
    program = os.environ.get("OVERT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    seen, _ = attend_to_text(text)
    licence = View(seen, tokens=list(text[:-1]), title="The Apache licence, looking for what it said before")
    john = LESSONS["my-name-is-john"]()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        in_terminal(
            browser,
            View(
                overt.attend(
                    seen.problem.q[0, 0, :600],
                    seen.problem.k[0, 0, :600],
                    seen.problem.v[0, 0, :600],
                    mask=~overt.window(0, 600),
                    score=seen.problem.score,
                ),
                tokens=list(text[:600]),
            ),
            DOCS / "terminal.png",
        )
        page = opened(browser, licence, folder)
        # From the place where the appendix repeats the head of the licence.
        at = text.rindex("Licensed under the Apache License")
        page.evaluate(f"overt.go({at + 30}, {at})")
        settle(page)
        # One of those that it looked at most, where the text said so long before.
        page.click("#row-list button >> nth=1")
        settle(page)
        page.screenshot(path=DOCS / "page.png")
        page.keyboard.press("z")
        settle(page)
        page.screenshot(path=DOCS / "cells.png")
        page = opened(browser, john, folder, height=900)
        page.screenshot(path=DOCS / "steps.png")
        page = opened(browser, john, folder, width=390, height=760, scheme="dark")
        page.click("#matrix-tab")
        settle(page)
        page.screenshot(path=DOCS / "phone.png")
        browser.close()


if __name__ == "__main__":
    main()
