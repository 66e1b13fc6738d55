"""Files that are written: whole or not at all, with the permissions and links that the user gave them."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overt as package
from faults.conftest import Run, environment, one_line
from overt.errors import FileError
from overt.views import View
from overt.views.lessons import LESSONS
from overt.writing import replaced, replaced_folder, streamed

VIEW = LESSONS["my-name-is-john"]()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("write", ["page", "save", "csv"])
@pytest.mark.parametrize("permitted", [0o600, 0o640, 0o664, 0o400 if os.geteuid() == 0 else 0o200])
def test_what_is_replaced_keeps_its_permissions(tmp_path: Path, write: str, permitted: int) -> None:
    path = tmp_path / "mine"
    path.write_bytes(b"private")
    path.chmod(permitted)
    getattr(VIEW, write)(path)
    assert mode(path) == permitted
    assert path.stat().st_size > 100
    assert os.listdir(tmp_path) == ["mine"]


def test_what_is_new_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        VIEW.page(tmp_path / "new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o640


def test_the_umask_of_other_threads_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It can only be asked for by setting it, and files that other threads make meanwhile would be open to everybody.
    monkeypatch.setattr(os, "umask", None)
    for path in (VIEW.page(tmp_path / "new"), VIEW.page(tmp_path / "new")):
        assert path.stat().st_size


def test_what_may_only_be_read_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine"
    path.write_bytes(b"kept")
    path.chmod(0o444)
    if os.geteuid() == 0:
        # Root may write everything.
        monkeypatch.setattr(os, "access", lambda path, how: how != os.W_OK)
    with pytest.raises(FileError, match="may only be read"):
        VIEW.page(path)
    assert path.read_bytes() == b"kept"


@pytest.mark.parametrize("missing", ["link", "O_TMPFILE"])
def test_filesystems_without_files_that_have_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if missing == "link":
        monkeypatch.setattr(os, "link", refused)
    else:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "mine"
    path.write_bytes(b"private")
    path.chmod(0o600)
    expected = VIEW.page(tmp_path / "new").read_bytes()
    assert VIEW.page(path).read_bytes() == expected
    assert mode(path) == 0o600
    assert expected.rstrip().endswith(b"</html>")
    with pytest.raises(ZeroDivisionError), replaced(path) as file:
        file.write(b"half" * (1 // 0))
    assert path.read_bytes() == expected
    assert sorted(os.listdir(tmp_path)) == ["mine", "new"]


def test_links_lead_to_what_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("later")
    for name, target in (("link", "real"), ("dangling", "later")):
        VIEW.csv(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert not (tmp_path / target).is_symlink()
        assert (tmp_path / target).read_bytes().startswith(b"layer,")


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match=r"cannot write .*a: Too many levels of symbolic links"):
        VIEW.page(tmp_path / "a")
    with pytest.raises(FileError, match="Too many levels"), replaced_folder(tmp_path / "b"):
        pass
    assert {path.name: os.readlink(path) for path in tmp_path.iterdir()} == {"a": "b", "b": "a"}


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "."], ids=["long", "wide", "folder"])
def test_odd_names(tmp_path: Path, name: str) -> None:
    if name == ".":
        with pytest.raises(FileError, match="Is a directory"):
            VIEW.csv(tmp_path / name)
    else:
        assert VIEW.csv(tmp_path / name).stat().st_size
    with pytest.raises(FileError, match="File name too long"):
        VIEW.csv(tmp_path / ("n" * 256))
    with pytest.raises(FileError, match="null"):
        VIEW.csv(tmp_path / "a\0b")


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_pages_go_down_a_pipe(overt: Run, tmp_path: Path, target: str) -> None:
    if not Path("/proc/self/fd").exists() and target.startswith("/proc"):
        pytest.skip("this system has no /proc")
    (tmp_path / "link").symlink_to("/dev/stdout")
    done = overt("show", "page", "my-name-is-john", "-o", target)
    assert (done.returncode, done.stderr) == (0, b"")
    # The page, and nothing that is no page.
    assert done.stdout.startswith(b"<!doctype html>")
    assert done.stdout.rstrip().endswith(b"</html>")
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("shell", ['"$@" >out', '"$@" >>out'], ids=["anew", "after"])
def test_pages_go_where_output_goes(overt: Run, tmp_path: Path, shell: str) -> None:
    (tmp_path / "out").write_bytes(b"before\n")
    assert overt("show", "data", "bat", "--format", "csv", shell=shell).returncode == 0
    lines = (tmp_path / "out").read_bytes().splitlines()
    assert lines[:-5] == ([b"before"] if ">>" in shell else [])
    assert lines[-5].startswith(b"layer,name,")


def test_other_descriptors_and_pipes_with_names(overt: Run, tmp_path: Path) -> None:
    done = overt("show", "page", "bat", "-o", "fifo", shell='mkfifo fifo; cat fifo >page & "$@"; wait')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    done = overt("show", "data", "bat", "-o", "/dev/fd/7", "--format", "npz", shell='"$@" 7>npz')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "page").read_bytes().rstrip().endswith(b"</html>")
    with np.load(tmp_path / "npz") as arrays:
        assert "q" in arrays
    assert streamed(tmp_path / "fifo")
    assert not streamed(tmp_path / "page")
    assert not streamed(tmp_path / "none")


def test_a_full_disk_leaves_what_was_there(overt: Run, tmp_path: Path) -> None:
    # A limit on the size of files stands for the full disk: the write fails half-way.
    (tmp_path / "page.html").write_bytes(b"old")
    for way in (("page",), *(("data", "--format", kind) for kind in ("json", "csv", "npz"))):
        done = overt("show", *way, "encoder-decoder", "-o", "page.html", shell='ulimit -f 1; "$@"')
        assert "cannot write page.html: File too large" in one_line(done)
        assert (tmp_path / "page.html").read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["page.html"]
    assert "cannot write /dev/full: No space left" in one_line(overt("show", "page", "bat", "-o", "/dev/full"))


def test_folders_are_replaced_whole_and_keep_their_permissions(tmp_path: Path) -> None:
    def write(text: str, overwrite: bool = True) -> None:
        with replaced_folder(tmp_path / "export", overwrite=overwrite) as new:
            (new / "model").write_text(text)

    write("one", overwrite=False)
    (tmp_path / "export").chmod(0o750)
    (tmp_path / "export" / "model").chmod(0o600)
    write("two")
    assert (mode(tmp_path / "export"), mode(tmp_path / "export" / "model")) == (0o750, 0o600)
    assert (tmp_path / "export" / "model").read_text() == "two"
    with pytest.raises(FileError, match="exists already"):
        write("three", overwrite=False)
    with pytest.raises(ZeroDivisionError), replaced_folder(tmp_path / "export", overwrite=True) as new:
        (new / "model").write_text(str(1 / 0))
    assert (tmp_path / "export" / "model").read_text() == "two"
    assert os.listdir(tmp_path) == ["export"]


def test_cells_that_a_spreadsheet_would_compute(tmp_path: Path) -> None:
    q = np.eye(7, 4)
    names = ["=1+1", "+1", "-1", "@SUM(A1)", " =HYPERLINK(A1)", "＝1", "plain"]
    text = View(package.attend(q, q, q), tokens=names).csv(tmp_path / "x.csv", 1).read_text("utf-8")
    for name in names[:-1]:
        assert f",'{name}," in text
        assert f",{name}," not in text
    assert ",plain," in text


def test_every_file_is_written_in_one_place() -> None:
    """Nothing else in the library opens a file to write, but the log of training, which grows line by line."""
    home = Path(inspect.getfile(package)).parent
    found = set()
    for path in home.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).rpartition(".")[2]
                given = {x.value for x in ast.walk(node) if isinstance(x, ast.Constant)}
                opened = called in ("open", "fdopen") and given & {"w", "wb", "x", "xb", "a", "ab", "r+", "r+b"}
                if opened or called in ("write_text", "write_bytes", "save_file", "mkstemp", "NamedTemporaryFile"):
                    found.add(path.relative_to(home).as_posix())
    # The checker's processes talk through pipes, and a terminal is asked for its colours.
    processes = {"check/process/session.py", "check/process/child.py"}
    assert found == {"writing.py", "training/loop.py", "views/paper.py", *processes}


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without names are Linux's")
@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_nothing_stays_of_a_process_that_is_killed(tmp_path: Path, signal: str) -> None:
    code = f"""
import os, signal
from overt.writing import replaced
with replaced("file") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIG{signal})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), timeout=60)
    assert done.returncode < 0
    assert os.listdir(tmp_path) == []
