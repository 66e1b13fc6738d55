"""The page in a real browser, offline: what its tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from overt.views import View

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Opened = Callable[..., "Page"]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
FLAGS += ["--disable-component-update", "--disable-sync"]
IDLE = "() => new Promise((done) => { const wait = () => overt.busy ? setTimeout(wait, 20) : done(); wait(); })"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = os.environ.get("OVERT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("these tests drive Chromium: apt-get install chromium, or set OVERT_CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Open the page of a view; whatever it asks for but itself, and whatever it complains of, fails the test."""
    contexts, requests, complaints = [], [], []

    def opened(view: View, *, width: int = 1280, height: int = 900, scheme: Any = "light", **options: Any) -> Page:
        path = view.page(tmp_path / f"{len(contexts)}.html", **options)
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.evaluate("overt.ready")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert set(requests) == {(tmp_path / f"{i}.html").as_uri() for i in range(len(contexts))}


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def settled(page: Page) -> Page:
    """Let the page draw what it was asked for."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


def state(page: Page, name: str) -> Any:
    return page.evaluate(f"overt.{name}")


def center(page: Page, r: int, c: int) -> tuple[float, float]:
    """The middle of a cell of the matrix, in the window."""
    box = page.locator("#matrix").bounding_box()
    assert box is not None
    x, y = page.evaluate(
        f"() => {{ const {{ left, top }} = overt.matrix.inside, v = overt.matrix.view;"
        f" return [left + ({c} + 0.5 - v.x) * v.sx, top + ({r} + 0.5 - v.y) * v.sy]; }}"
    )
    return box["x"] + x, box["y"] + y


def until(frame: Any, condition: str) -> None:
    """Wait for what the kernel has to answer first; the policy of the page forbids Playwright's own way."""
    came = frame.evaluate(
        "() => new Promise((done) => { const end = performance.now() + 20000,"
        f" wait = () => ({condition}) ? done(true) : performance.now() > end ? done(false) : setTimeout(wait, 20);"
        " wait(); })"
    )
    assert came, condition
