"""Attention of files: block by block, stopped anywhere, in memory that does not grow with length."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overt
import overt.positions
from overt import files
from overt.cli import main
from overt.errors import ArgumentError, FileError, ShapeError

MIB = 2**20


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 32 rows and of 256 keys, so that there are many."""
    monkeypatch.setattr(files, "_ROWS", 32 * 16 * 2)
    monkeypatch.setattr(files, "_KEYS", 256 * 16)


def arrays(T: int = 300, S: int = 700, dtype: Any = np.float32, batch: tuple[int, ...] = (2,)) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (*batch, 4, T, 16), (*batch, 2, S, 16), (*batch, 2, S, 8)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def same(found: files.Stored, whole: list[np.ndarray], rows: range, top: int, **options: Any) -> None:
    expected = overt.attend(*whole, **options)
    t = slice(rows.start, rows.stop)
    close = {"rtol": 1e-5, "atol": 2e-6} if whole[0].dtype != np.float16 else {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(found.output, expected.output[..., t, :], **close)
    close = {"rtol": 1e-5, "atol": 4e-6}
    np.testing.assert_allclose(found.lse, expected.lse[..., t], **close)
    np.testing.assert_allclose(found.entropy, expected.entropy()[..., t], **close)
    received = np.asarray(expected.weights)[..., t, :].sum(axis=-2)
    np.testing.assert_allclose(found.received, received, rtol=1e-5, atol=1e-5)
    if top:
        indices, weights = expected.top(top)
        np.testing.assert_allclose(found.weights, weights[..., t, :], **close)
        there = np.take_along_axis(np.asarray(expected.weights)[..., t, :], np.asarray(found.indices), -1)
        np.testing.assert_allclose(there, weights[..., t, :], **close)
        assert indices[..., t, :].shape == found.indices.shape  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rows", "top", "options"),
    [
        (None, 5, {}),
        (range(37, 211), 5, {"mask": overt.causal()}),
        (range(5), 0, {"mask": overt.window(20, 3)}),
        (None, 3, {"mask": overt.window(9, 0) | overt.where(lambda b, h, t, s: (t + s) % 97 == 0)}),
        (None, 4, {"mask": overt.padding(np.array([0, 300])), "sinks": np.ones(4, np.float32)}),
        (None, 2, {"bias": overt.alibi(overt.positions.alibi_slopes(4)), "softcap": 20.0}),
    ],
)
def test_files_hold_what_arrays_give(tmp_path: Path, rows: range | None, top: int, options: dict[str, Any]) -> None:
    whole = arrays()
    for name, x in zip("qkv", whole, strict=True):
        np.save(tmp_path / f"{name}.npy", x)
    told: list[tuple[int, int]] = []
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    found = files.attend(
        tmp_path / "seen", *paths, rows=rows, top=top, report=lambda *numbers: told.append(numbers), **options
    )
    same(found, whole, rows or range(300), top, **options)
    assert found.rows == (rows or range(300))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    # What is left is known from the start, and in the end it is nothing.
    assert len({total for _, total in told}) == 1
    assert told[-1][0] == told[-1][1]
    assert not list((tmp_path / "seen").glob("*.part"))
    same(files.Stored.of(tmp_path / "seen"), whole, found.rows, top, **options)


def test_long_rows_are_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = arrays(700)
    monkeypatch.setattr(files, "_ROWS", 256 * 16 * 2)
    monkeypatch.setattr(files, "_CELLS", 32 * 700 * 2)
    told: list[int] = []
    found = files.attend(tmp_path / "seen", *whole, mask=overt.causal(), report=lambda done, total: told.append(done))
    # Rows of a block are as many, and its last ones see at most twice as many keys as they do on average.
    assert len(told) > 700 / 64
    assert max(np.diff(told)) <= 2 * 32 * 700 * 2
    same(found, whole, range(700), 8, mask=overt.causal())


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("batch", [(), (1, 2)])
def test_dtypes_and_leading_axes(tmp_path: Path, dtype: Any, batch: tuple[int, ...]) -> None:
    whole = arrays(90, 90, dtype, batch)
    found = files.attend(tmp_path / "seen", *whole, mask=overt.causal(), top=3)
    assert found.output.dtype == dtype
    same(found, whole, range(90), 3, mask=overt.causal())


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = arrays()
    options: dict[str, Any] = {"mask": overt.causal(), "sinks": np.ones(4, np.float32)}
    once = files.attend(tmp_path / "once", *whole, **options)
    for save in (0.0, 1e9):
        # What is written down after each block, or only when a run stops, and what a kill in between leaves.
        monkeypatch.setattr(files, "_SAVED", save)
        folder = tmp_path / f"often-{save:g}"
        calls = 0

        def stop(done: int, total: int) -> None:
            nonlocal calls
            calls += 1
            if calls % 4 == 0:
                raise KeyboardInterrupt

        begun = False
        while True:
            try:
                found = files.attend(folder, *whole, **options, resume=begun, report=stop)
                break
            except KeyboardInterrupt:
                begun = True
                with pytest.raises(FileError, match="no finished attention"):
                    files.Stored.of(folder)
        assert calls > 40
        for name in ("output", "lse", "received", "entropy", "indices", "weights"):
            np.testing.assert_array_equal(getattr(found, name), getattr(once, name))


# What is stopped where a file is about to be closed leaves that to whoever collects it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("again", [None, 4], ids=["once", "twice"])
def test_a_run_goes_on_wherever_it_stops(tmp_path: Path, again: int | None) -> None:
    whole = arrays(40, 300, batch=())
    once = files.attend(tmp_path / "once", *whole, top=2)
    folder, lines = tmp_path / "seen", 0

    def counted(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != files.__file__:
            return None
        lines += event == "line"
        # Again while what is done is written down.
        if event == "line" and lines in (at, at + (again or 0)):
            raise KeyboardInterrupt
        return counted

    def stopped(**how: bool) -> bool:
        nonlocal lines
        lines, before = 0, sys.gettrace()
        sys.settrace(counted)
        try:
            files.attend(folder, *whole, top=2, **how)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    # Every so many lines, and over files that are there from the run before.
    for at in range(1, 10_000, 7):
        if not stopped(overwrite=True):
            break
        unfinished = (folder / "unfinished.npz").exists()
        if unfinished or not (folder / "attention.json").exists():
            files.attend(folder, *whole, top=2, resume=unfinished, overwrite=True)
        found = files.Stored.of(folder)
        for name in ("output", "lse", "received", "entropy", "indices", "weights"):
            np.testing.assert_array_equal(getattr(found, name), getattr(once, name), err_msg=f"{name}, line {at}")
    assert at > 300


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    whole = arrays()
    for name, x in zip("qkv", whole, strict=True):
        np.save(tmp_path / f"{name}.npy", x)
    program = f"""
import os, signal
import overt
from overt import files
files._ROWS, files._KEYS, files._SAVED = {files._ROWS}, {files._KEYS}, 0.0
def report(done, total):
    if done > total // 2:
        os.kill(os.getpid(), signal.SIGKILL)
files.attend("seen", "q.npy", "k.npy", "v.npy", mask=overt.causal(), report=report)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=100)
    assert done.returncode == -signal.SIGKILL
    left: list[int] = []
    found = files.attend(
        tmp_path / "seen",
        *whole,
        mask=overt.causal(),
        resume=True,
        report=lambda done, total: left.append(total - done),
    )
    assert 0 < left[0] < 0.6 * max(left[0] * 2, 1)
    same(found, whole, range(300), 8, mask=overt.causal())


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    whole = arrays(40, 40, batch=())
    for name, x in zip("qkv", whole, strict=True):
        np.save(tmp_path / f"{name}.npy", x)
    program = """
import sys
from overt import files
def report(done, total):
    if done:
        print("begun", flush=True)
        sys.stdin.read()
files.attend(*sys.argv[2:], resume=sys.argv[1] == "resume", report=report)
"""
    folder = tmp_path / "seen" / "deep"
    paths = [folder, *(tmp_path / f"{name}.npy" for name in "qkv")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    for how, killed in (("begin", True), ("resume", False)):
        with subprocess.Popen([sys.executable, "-c", program, how, *map(str, paths)], **pipes) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == b"begun\n"
            for other in ({"overwrite": True}, {"resume": True}, {}):
                with pytest.raises(FileError, match=r"another run writes into .*deep: wait until it has ended"):
                    files.attend(folder, *whole, **other)
            if killed:
                first.kill()
            first.communicate()
        assert first.returncode == (-signal.SIGKILL if killed else 0)
    same(files.Stored.of(folder), whole, range(40), 8)
    assert "unfinished.lock" not in {path.name for path in folder.iterdir()}


def test_what_is_in_the_way_is_said(tmp_path: Path) -> None:
    whole, folder = arrays(40, 40), tmp_path / "seen"
    with pytest.raises(FileError, match="nothing to resume"):
        files.attend(folder, *whole, resume=True)

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.attend(folder, *whole, mask=overt.keep(np.ones((40, 40), bool)), report=stop)
    with pytest.raises(FileError, match="holds a run that has not ended: --resume goes on, --overwrite begins anew"):
        files.attend(folder, *whole)
    other = np.ones((40, 40), bool)
    other[3, 4] = False
    with pytest.raises(FileError, match="other arrays or options"):
        files.attend(folder, *whole, mask=overt.keep(other), resume=True)
    changed = whole[0].copy()
    changed[0, 0, 0, 0] += 1
    with pytest.raises(FileError, match="other arrays or options"):
        files.attend(folder, changed, *whole[1:], mask=overt.keep(np.ones((40, 40), bool)), resume=True)
    (folder / "unfinished.npz").write_bytes(b"nothing")
    with pytest.raises(FileError, match="does not describe a run"):
        files.attend(folder, *whole, resume=True)
    same(files.attend(folder, *whole, overwrite=True, top=2), whole, range(40), 2)
    for how in ({}, {"resume": True}):
        with pytest.raises(FileError, match=r"seen is finished: overt show .*seen shows it; --overwrite begins anew"):
            files.attend(folder, *whole, **how)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x").touch()
    with pytest.raises(FileError, match="notes is not empty: --overwrite writes there all the same, or choose another"):
        files.attend(tmp_path / "notes", *whole)
    with pytest.raises(FileError, match="nothing to resume"):
        files.attend(tmp_path / "notes", *whole, resume=True)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["x"]
    with pytest.raises(FileError, match="x is a file: choose a folder for the results"):
        files.attend(tmp_path / "notes" / "x", *whole)
    with pytest.raises(FileError, match="y: Not a directory"):
        files.attend(tmp_path / "notes" / "x" / "y", *whole)
    same(files.attend(folder, *whole, resume=True, overwrite=True, top=1), whole, range(40), 1)
    with pytest.raises(ArgumentError, match="rows must be a range of"):
        files.attend(folder, *whole, rows=range(30, 50), overwrite=True)
    with pytest.raises(ArgumentError, match=r"rows must be .* some row, not range\(3, 3\)"):
        files.attend(tmp_path / "none", *whole, rows=range(3, 3))
    with pytest.raises(ArgumentError, match=r"no numbers to write: output would have shape \(2, 4, 0, 8\)"):
        files.attend(tmp_path / "none", whole[0][:, :, :0], *whole[1:])
    assert not (tmp_path / "none").exists()
    with pytest.raises(ArgumentError, match="top must be at most"):
        files.attend(folder, *whole, top=41, overwrite=True)
    with pytest.raises(ShapeError, match="v has 39 positions"):
        files.attend(folder, *whole[:2], whole[2][:, :, :-1])
    with pytest.raises(FileError, match="cannot read"):
        files.attend(folder, tmp_path / "none.npy", *whole[1:])


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code, *capsys.readouterr()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = arrays(80, 80, batch=())
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    for path, x in zip(paths, whole, strict=True):
        np.save(path, x)
    common = ["attend", *paths, "-o", tmp_path / "seen", "--window", 9, 0, "--rows", "10:70", "--top", 2]
    code, out, _ = said(capsys, *common, "--json")
    assert code == 0
    assert json.loads(out)["shapes"]["indices"] == [4, 60, 2]
    same(files.Stored.of(tmp_path / "seen"), whole, range(10, 70), 2, mask=overt.window(9, 0))
    code, _, err = said(capsys, *common)
    assert (code, len(err.splitlines())) == (2, 1)
    code, out, err = said(capsys, *common, "--overwrite")
    assert code == 0
    assert "received.npy" in out
    assert "100.0 %" in err
    assert said(capsys, *common, "--rows", "7")[0] == 2
    for how in ((), ("--resume",)):
        message = f"{tmp_path / 'seen'} is finished: overt show {tmp_path / 'seen'} shows it; --overwrite begins anew"
        assert said(capsys, *common, *how)[2] == f"overt: {message}, or choose another folder\n"
    # Where there are fewer keys than are asked for by default.
    few = arrays(5, 5, batch=())
    for path, x in zip(paths, few, strict=True):
        np.save(path, x)
    assert said(capsys, "attend", *paths, "-o", tmp_path / "few")[0] == 0
    same(files.Stored.of(tmp_path / "few"), few, range(5), 5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["text.npz", "k.npy", "v.npy"],
            r"cannot read text\.npz: it is no \.npy file; give an \.npy file of one array",
        ),
        (["q.npy", "objects.npy", "v.npy"], r"cannot read objects\.npy: .*Python objects.*; give an \.npy file"),
        (["q.npy", "k.npy", "empty.npy"], r"cannot read empty\.npy: it is no \.npy file; give an \.npy file"),
        (["q.npy", "k.npy", "none.npy"], r"cannot read none\.npy: .*No such file"),
        (["q.npy", "k.npy", "short.npy"], r"cannot read short\.npy: "),
        (
            ["qkv.npz", "k.npy", "v.npy"],
            r"cannot read qkv\.npz: it is an \.npz archive; give an \.npy file of one array",
        ),
        (["q.npy", "k.npy", "v.npy", "--rows", "3:3"], r"--rows wants two positions FROM:TO, the one before the other"),
        (["q.npy", "k.npy", "v.npy", "--rows", "5:3"], r"--rows wants two positions FROM:TO, the one before the other"),
        (["q.npy", "k.npy", "v.npy", "--rows", "3:99"], r"rows must be a range of 0…8 with step 1 and some row"),
        (["q0.npy", "k.npy", "v.npy"], r"no numbers to write: output would have shape \(2, 0, 8\)"),
        (["", "k.npy", "v.npy"], r"Invalid value for 'Q': the path is empty: name a file or a folder"),
    ],
    ids=lambda x: None if isinstance(x, str) else "-".join(x),
)
def test_what_cannot_be_read_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.ones((2, 8, 8), np.float32)
    for name in ("q", "k", "v"):
        np.save(f"{name}.npy", x)
    np.save("q0.npy", x[:, :0])
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    np.savez("qkv.npz", q=x, k=x)
    Path("text.npz").write_text("hello\n")
    Path("empty.npy").touch()
    Path("short.npy").write_bytes(Path("q.npy").read_bytes()[:-1])
    code, out, err = said(capsys, "attend", *given, "-o", "seen")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert re.search(message, err)
    assert "pickle" not in err
    assert not Path("seen").exists()


def test_no_run_writes_over_what_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, folder = np.ones((2, 8, 8), np.float32), tmp_path / "seen"
    files.attend(folder, x, x, x)
    (tmp_path / "link.npy").symlink_to(folder / "output.npy")
    np.save(folder / "k.npy", x)
    before = (folder / "output.npy").read_bytes()
    for path in (folder / "output.npy", tmp_path / "link.npy"):
        code, _, err = said(capsys, "attend", path, folder / "k.npy", path, "-o", folder, "--overwrite")
        assert (code, len(err.splitlines())) == (2, 1)
        assert f"q is {folder / 'output.npy'}, which would be written over: choose another folder" in err
    with pytest.raises(FileError, match=r"v is .*weights\.npy, which would be written over"):
        files.attend(folder, x, x, np.load(folder / "weights.npy", mmap_mode="r"), overwrite=True)
    assert (folder / "output.npy").read_bytes() == before
    # What lies there under another name stays.
    files.attend(folder, folder / "k.npy", x, x, overwrite=True)
    np.testing.assert_array_equal(np.load(folder / "k.npy"), x)


def test_inputs_that_have_changed_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = dict(zip("qkv", arrays(80, 80, batch=()), strict=True))

    def write(**changes: np.ndarray) -> None:
        for name, x in (whole | changes).items():
            np.save(f"{name}.npy", x)

    write()
    options = ("--causal", "--window", 9, 0, "--scale", 0.3, "--softcap", 20, "--top", 3)
    assert said(capsys, "attend", "q.npy", "k.npy", "v.npy", "-o", "seen", *options)[0] == 0
    shown = said(capsys, "show", "seen")
    assert (shown[0], shown[2]) == (0, "")
    # The same numbers, written again.
    write()
    assert said(capsys, "show", "seen") == shown
    for name, x in whole.items():
        changed = x.copy()
        changed[-1, -1, -1] += 1
        for other in (changed, x[:, :-1], x[..., :-1]):
            write(**{name: other})
            os.utime(f"{name}.npy", ns=(0, 0))
            code, out, err = said(capsys, "show", "seen")
            assert (code, out, len(err.splitlines())) == (2, "", 1)
            assert f"{name}.npy" in err
            assert "changed since overt attend made seen: run it again, with --overwrite" in err
    # Another run in the same folder, of which nothing is said.
    write()
    files.attend("seen", *(x[:, :50] for x in whole.values()), overwrite=True)
    assert "seen does not say what it was made of" in said(capsys, "show", "seen")[2]


def test_folders_of_earlier_versions_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    for path, x in zip(paths, arrays(40, 40, batch=()), strict=True):
        np.save(path, x)
    assert said(capsys, "attend", *paths, "-o", tmp_path / "seen")[0] == 0
    shown = said(capsys, "show", tmp_path / "seen")
    for name in ("asked.json", "attention.json"):
        held = json.loads((tmp_path / "seen" / name).read_text())
        held = {key: value for key, value in held.items() if key not in ("identity", "stamps")}
        (tmp_path / "seen" / name).write_text(json.dumps(held))
    assert said(capsys, "show", tmp_path / "seen") == shown


MEASURE = """
import json, resource
import numpy as np
import overt
from overt import files

def peak():
    # Kilobytes on Linux.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

x = np.ones((1, 64, 64), np.float32)
overt.attend(x, x, x).top(8)
before = peak()
files.attend("window", "q.npy", "k.npy", "v.npy", mask=overt.window(127, 0))
window = peak() - before
files.attend("rows", "q.npy", "k.npy", "v.npy", mask=overt.causal(), rows=range({T} - 1024, {T}))
print(json.dumps([window, peak() - before]))
"""


def test_memory_is_the_arrays_and_64_mib(tmp_path: Path) -> None:
    T = 262_144
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, T, 64), np.float32)
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", x)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(T=T)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    # Output, lse, entropy, received, and eight indices and weights; all that is beside these would be 110 MiB for the
    # whole of the keys at once.
    outputs = T * (64 * 4 + 4 + 4 + 4 + 8 * 12)
    assert max(json.loads(done.stdout)) <= 3 * x.nbytes + outputs + 64 * MIB
    assert os.path.getsize(tmp_path / "window" / "output.npy") > x.nbytes


def test_what_was_stored_is_printed_however_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    for path, x in zip(paths, arrays(400, 400, batch=()), strict=True):
        np.save(path, x)
    assert said(capsys, "attend", *paths, "-o", tmp_path / "seen", "--causal")[0] == 0
    code, out, err = said(capsys, "show", tmp_path / "seen")
    assert (code, err) == (0, "")
    assert "400 queries × 400 keys" in out
