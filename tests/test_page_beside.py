"""Pages of texts so long that their numbers lie in a folder beside the page, and are read when they are looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page

import overt
from chromium import normal, until
from overt.cli.attend import command as attend
from overt.cli.show import command as show
from overt.errors import ArgumentError, FileError
from overt.views import View

T, D = 3000, 8


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that are long for these tests."""
    for name, value in {"_INSIDE": 1 << 14, "_NUMBERS": 1 << 11, "_WORK": 1 << 20, "_MORE_BINS": 100}.items():
        monkeypatch.setattr(f"overt.views.page.{name}", value)


@pytest.fixture(scope="module")
def seen() -> overt.Attended:
    q, k = (2 * normal(2, T, D, seed=i, dtype=np.float32) for i in (0, 1))
    return overt.attend(q, k, k[..., :0], mask=overt.window(300, 0))


def opened(browser: Browser, path: Path, requests: list[str], complaints: list[str]) -> Page:
    page = browser.new_page(offline=True, viewport={"width": 1280, "height": 900})
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.evaluate("overt.ready")
    return page


def test_numbers_come_when_they_are_looked_at(browser: Browser, tmp_path: Path, seen: overt.Attended) -> None:
    path = View(seen).page(tmp_path / "long.html")
    tiles = sorted((tmp_path / "long.tiles").iterdir())
    assert len(tiles) >= 2 * 2 * T * D // (1 << 11)
    requests: list[str] = []
    complaints: list[str] = []
    page = opened(browser, path, requests, complaints)
    until(page, "overt.look.sums() !== null")
    sums = page.evaluate("[[...overt.look.sums().received], [...overt.look.sums().entropy]]")
    np.testing.assert_allclose(sums[0], seen.received()[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sums[1], seen.entropy()[0], rtol=1e-5, atol=1e-5)
    overview = np.array(page.evaluate("[...overt.part.scan(0, 0).largest]")).reshape(100, 100)
    expected = seen.map(100, 100)[0]
    np.testing.assert_allclose(overview[overview >= 0], expected[overview >= 0], atol=1e-3)
    assert (expected[overview < 0] == 0).all()
    page.evaluate("() => { overt.choose(0, 1); overt.go(1700, 1600); overt.matrix.reveal(1700, 1600, true); }")
    until(page, "overt.matrix.exact && overt.matrix.look.head === 1")
    box = page.evaluate("overt.matrix.window")
    rows, keys = slice(box["r0"], box["r1"]), slice(box["c0"], box["c1"])
    cells = np.reshape(page.evaluate("[...overt.matrix.cached.values]"), (rows.stop - rows.start, -1))
    np.testing.assert_allclose(np.maximum(cells, 0), seen.weights[1, rows, keys], rtol=1e-5, atol=1e-7)
    # A row and a column are read whole, and nothing that the mask hides.
    until(page, f"document.querySelector('#row-list bdi')?.textContent === '{seen.top(1)[0][1, 1700, 0]}'")
    weight = page.evaluate("overt.part.tile(0, 1, 1700, 1701, 1600, 1601)[0]")
    assert weight == pytest.approx(float(seen.weights[1, 1700, 1600]), rel=1e-5)
    read = {Path(url).name for url in requests if url.endswith(".js")}
    assert read
    assert read < {tile.name for tile in tiles}
    assert complaints == []
    page.close()


def test_a_folder_that_was_left_behind_is_named(browser: Browser, tmp_path: Path, seen: overt.Attended) -> None:
    path = View(seen).page(tmp_path / "long.html")
    path.rename(tmp_path / "alone.html")
    (tmp_path / "long.tiles").rename(tmp_path / "elsewhere")
    page = opened(browser, tmp_path / "alone.html", [], [])
    page.evaluate("() => overt.go(1700, 1600)")
    until(page, "document.querySelector('#status').textContent.includes('is not beside the page')")
    page.close()


def test_only_a_page_with_tiles_may_read_them(browser: Browser, tmp_path: Path, seen: overt.Attended) -> None:
    text = View(seen).page(tmp_path / "long.html").read_text()
    assert "'strict-dynamic'; style-src" in text
    assert "trusted-types overt" in text
    small = (
        View(overt.attend(normal(1, 4, 3), normal(1, 4, 3), normal(1, 4, 3))).page(tmp_path / "small.html").read_text()
    )
    assert "strict-dynamic'; style-src" not in small
    assert "trusted-types 'none'" in small
    assert not (tmp_path / "small.tiles").exists()
    # No other script is let in, by whatever name.
    page = opened(browser, tmp_path / "long.html", [], [])
    for name in ("../long.tiles/a0", "a0-0.js?x", "//elsewhere/a0"):
        failed = page.evaluate(
            "async (name) => { const q = overt.part.numbers.q.tiles, { name: own } = q.reference.tiles;"
            "q.reference.tiles.name = name; try { await q.fetch(0, 1); return null; }"
            "catch (error) { return error.message; } finally { q.reference.tiles.name = own; } }",
            name,
        )
        assert failed == "no tile"
    page.close()


def test_a_page_that_is_written_again(tmp_path: Path, seen: overt.Attended) -> None:
    View(seen).page(tmp_path / "long.html")
    before = len(list((tmp_path / "long.tiles").iterdir()))
    half = overt.attend(*(x[:, :1500] for x in (seen.problem.q[0], seen.problem.k[0], seen.problem.v[0])))
    View(half).page(tmp_path / "long.html")
    assert len(list((tmp_path / "long.tiles").iterdir())) < before
    View(seen).page(tmp_path / "long.html")
    tiles = list((tmp_path / "long.tiles").iterdir())
    assert len(tiles) == before
    assert all(tile.stat().st_size for tile in tiles)
    (tmp_path / "long.tiles" / "mine.txt").write_text("mine")
    with pytest.raises(FileError, match=r"holds mine\.txt"):
        View(seen).page(tmp_path / "long.html")
    with pytest.raises(ArgumentError, match="has a folder beside it"):
        View(seen).page("/dev/stdout")


def test_what_attend_wrote_is_shown(browser: Browser, tmp_path: Path) -> None:
    arrays = [2 * normal(1, 1200, D, seed=i, dtype=np.float32) for i in range(3)]
    paths = [str(tmp_path / f"{name}.npy") for name in "qkv"]
    for path, x in zip(paths, arrays, strict=True):
        np.save(path, x)
    folder = tmp_path / "seen"
    done = CliRunner().invoke(attend, [*paths, "--window", "99", "0", "-o", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0
    done = CliRunner().invoke(show, ["page", str(folder), "-o", str(tmp_path / "x.html")], catch_exceptions=False)
    assert done.output.startswith(f"wrote {tmp_path / 'x.html'}")
    page = opened(browser, tmp_path / "x.html", [], [])
    page.evaluate("() => { overt.go(700, 650); overt.matrix.reveal(700, 650, true); }")
    until(page, "overt.matrix.exact")
    until(page, "document.querySelector('#card').getAttribute('aria-busy') === 'false'")
    expected = overt.attend(*arrays, mask=overt.window(99, 0)).weights[0, 700, 650]
    assert page.evaluate("overt.part.tile(0, 0, 700, 701, 650, 651)[0]") == pytest.approx(float(expected), rel=1e-5)
    page.close()
    (tmp_path / "k.npy").unlink()
    with pytest.raises(FileError, match=r"cannot read .*k\.npy"):
        CliRunner().invoke(show, [str(folder)], catch_exceptions=False)


def test_a_result_in_a_long_file_is_taken_where_it_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from overt.views import files

    monkeypatch.setattr(files, "_LONG", 1)
    q, k = (normal(2, 40, D, seed=i) for i in (0, 1))
    lse = overt.attend(q, k, k[..., :0]).lse
    calls = []
    monkeypatch.setattr(files, "attend", lambda *arrays, **options: calls.append(1) or overt.attend(*arrays, **options))
    np.savez(tmp_path / "right.npz", q=q, k=k, lse=lse)
    np.savez(tmp_path / "wrong.npz", q=q, k=k, lse=lse / np.log(2))
    for name, computed in (("right", 0), ("wrong", 1)):
        (part,) = files.load(tmp_path / f"{name}.npz")
        np.testing.assert_allclose(part.seen.lse, lse, atol=1e-12)
        assert len(calls) == computed
