"""The checker's process ends with its parent, imports nothing of a stranger's, and has room to load libraries."""

from __future__ import annotations

import contextlib
import copy
import os
import random
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import overt as package
from faults.conftest import Run, environment, one_line
from overt.check.checking import examine
from overt.check.process import wire
from overt.check.process.session import EndedError, Here, Session
from overt.check.report import CallError
from overt.check.text.promises import unpacked
from overt.errors import ArgumentError, OvertError

RIGHT = """
import numpy as np

def attend(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v
"""
# Says which process it is, and hangs where only a signal helps.
HANGING = """
import os, time

def attend(q, k, v):
    with open("pid", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid", "pid.done")
    while True:
        time.sleep(1)
"""


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(textwrap.dedent(text))
    return folder / name


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def until(condition: Any, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# Elsewhere than on Linux nothing but a pipe tells.
PIPE = "import ctypes; ctypes.CDLL = lambda name: None\n"
HERE = "import overt, mine; overt.check(mine.attend)"
FILE = "from overt.cli import main; main(['check', 'mine.py:attend'])"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (FILE, signal.SIGTERM),
        (FILE, signal.SIGKILL),
        (HERE, signal.SIGTERM),
        (HERE, signal.SIGKILL),
        (PIPE + HERE, signal.SIGKILL),
    ],
    ids=["file-TERM", "file-KILL", "fork-TERM", "fork-KILL", "pipe-KILL"],
)
def test_no_candidate_survives_its_checker(tmp_path: Path, code: str, number: int) -> None:
    write(tmp_path, HANGING)
    code = "import sys; sys.path.append('.')\n" + code
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert until((tmp_path / "pid.done").exists), process.stderr.read() if process.poll() else ""  # type: ignore[union-attr]
        pid = int((tmp_path / "pid.done").read_text())
        assert lives(pid)
        process.send_signal(number)
        process.wait(30)
    assert until(lambda: not lives(pid))


def test_a_checker_that_has_ended_before(tmp_path: Path) -> None:
    # The parent that it was told of is no more.
    code = "from overt.check.process.child import follow; follow(1 << 22, 0); print('lives')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.parametrize("name", ["json.py", "numpy.py", "inspect.py", "typing.py", "overt.py", "site.py"])
def test_files_beside_the_candidate_change_nothing(tmp_path: Path, name: str) -> None:
    write(tmp_path, "raise SystemExit(3)", name)
    write(tmp_path, RIGHT)
    # As the installed command does it, the checker's own process has no working directory on its path.
    code = "from overt.cli import main; main(['check', 'mine.py:attend'])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, env=environment(), timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"mine.py:attend is right")


def test_candidates_import_what_lies_beside_them(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    write(tmp_path, RIGHT, "beside.py")
    write(tmp_path, "from beside import attend", "mine.py")
    write(tmp_path / "package", "from beside import attend\nimport sys\nassert sys.path[0] != ''", "inner.py")
    with Session() as session:
        for target in (f"{tmp_path}/mine.py:attend",):
            reply, _ = session.ask({"op": "load", "target": target})
            assert reply["description"]["name"] == "attend"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "overt", "check", "package.inner:attend"],
        cwd=tmp_path, capture_output=True, env=environment(), timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()


def test_what_libraries_map_is_no_memory(tmp_path: Path) -> None:
    # Builds of torch for CUDA map gigabytes of their files where they are imported; a file with a hole stands for them.
    write(
        tmp_path,
        f"""
        import mmap
        with open({str(tmp_path / "library")!r}, "w+b") as file:
            file.truncate(3 << 30)
            mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        import torch

        def attend(q, k, v):
            return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

        def greedy(q, k, v):
            return bytearray(512 << 20)
        """,
    )
    with Session(memory=256 << 20) as session:
        reply, _ = session.ask({"op": "load", "target": f"{tmp_path}/mine.py:attend"})
        assert "description" in reply, reply
        reply, _ = session.ask({"op": "load", "target": f"{tmp_path}/mine.py:greedy"})
        reply, _ = session.ask(
            {"op": "call", "handle": None, "calls": [{"backend": "numpy", "args": [{"value": 0}] * 3, "kwargs": {}}]}
        )
        assert reply["replies"][0]["error"]["type"] == "MemoryError"


LARGE = """
import torch
from torch import nn

class Wide(nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.n, self.kept = beta, torch.empty(alpha, beta, 25_000)
        self.a, self.b, self.c, self.d = (nn.Linear(alpha, alpha) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for f in (self.a, self.b, self.c))
        return self.d((torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v).transpose(1, 2).flatten(2))
"""


def test_many_large_instances_are_no_crash(tmp_path: Path) -> None:
    report = package.check(f"{write(tmp_path, LARGE, 'wide.py')}:Wide", memory=64 << 20)
    assert report.ok, str(report)


def test_libraries_have_room_to_load(overt: Run, tmp_path: Path) -> None:
    # The limit counts from where they stand.
    write(
        tmp_path,
        "import torch\n\ndef attend(q, k, v):\n    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v",
    )
    assert overt("check", "mine.py:attend", "--memory", "64").returncode == 0


def test_slow_is_not_wrong(tmp_path: Path) -> None:
    slow = RIGHT.replace("    s = q", "    time.sleep(0.03)\n    s = q").replace(
        "import numpy", "import time\nimport numpy"
    )
    target = f"{write(tmp_path, slow)}:attend"
    # Each call has a second, however many there are.
    report = package.check(target, timeout=1.0)
    assert report.ok, str(report)
    # A call that is recorded comes after the one that is found.
    target = f"{write(tmp_path, slow.replace('0.03', '0.3'))}:attend"
    with pytest.raises(CallError, match=r"not understood in time: 0\.5 seconds for all calls.*raise --deadline"):
        package.check(target, deadline=0.5)
    # What was found before stands.
    late = RIGHT.replace("    s = q", "    time.sleep(30 * (q.dtype == np.float32))\n    s = q")
    some = package.check(f"{write(tmp_path, 'import time' + late, 'late.py')}:attend", deadline=4.0)
    assert some.ok
    assert some.convention["layout"] == "BHTD"
    assert some.ledger[-1].step == "the rest"
    assert "4 seconds" in some.ledger[-1].why


def test_large_files_and_pictures_of_memory_are_not_written(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import resource

        def attend(q, k, v):
            with open(__file__ + ".large", "wb") as file:
                file.truncate(1 << 30)

        def core(q, k, v):
            return resource.getrlimit(resource.RLIMIT_CORE)[0] + 0.0

        def seconds(q, k, v):
            return resource.getrlimit(resource.RLIMIT_CPU)[0] + 0.0
        """,
    )
    call = {"op": "call", "handle": None, "calls": [{"backend": "numpy", "args": [{"value": 0}] * 3, "kwargs": {}}]}
    with Session(deadline=50.0) as session:
        session.ask({"op": "load", "target": f"{tmp_path}/mine.py:attend"})
        error = session.ask(call)[0]["replies"][0]["error"]
        assert (error["type"], "too large" in error["message"]) == ("OSError", True)
        session.ask({"op": "load", "target": f"{tmp_path}/mine.py:core"})
        assert session.ask(call)[1]["0.0"] == 0
        session.ask({"op": "load", "target": f"{tmp_path}/mine.py:seconds"})
        assert 50 <= session.ask(call)[1]["0.0"] <= 60 + 50 * (os.cpu_count() or 1)


@pytest.mark.parametrize("closed", ["<&- 2>&-", ">&- 2>&-"])
def test_closed_streams_are_not_the_checkers_pipes(overt: Run, tmp_path: Path, closed: str) -> None:
    write(tmp_path, RIGHT)
    done = overt("check", "mine.py:attend", "--junit", "x.xml", shell=f'"$@" {closed}')
    assert done.returncode == (2 if ">&- 2" in closed else 0), done.stderr
    # The same without the command, which opens them.
    code = "import overt, sys; sys.exit(not overt.check('mine.py:attend').ok)"
    command = ["bash", "-c", f'"$@" {closed}', "bash", sys.executable, "-c", code]
    assert subprocess.run(command, cwd=tmp_path, env=environment(), timeout=60).returncode == 0


def forged(data: bytes) -> str:
    """A candidate that writes to every pipe it finds."""
    return f"""
import os, stat

def attend(q, k, v):
    for number in range(3, 32):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                os.write(number, {data!r})
        except OSError:
            pass
    return q
"""


class Buffer(bytearray):
    write = bytearray.extend

    def flush(self) -> None:
        pass


def message(value: Any) -> bytes:
    stream = Buffer()
    wire.send(stream, value)  # type: ignore[arg-type]
    return bytes(stream)


FORGED = {
    "noise": b"\0\1" * 40,
    "short": struct.pack("<q", 10) + b"0123456789",
    "archive": struct.pack("<q", 30) + b"PK\3\4" + b"0" * 26,
    "huge": struct.pack("<q", 1 << 62),
    "list": message([]),
    "deep": struct.pack("<q", 0),
    "empty": message({}),
    "strange": message({"replies": [{"outputs": 3, "changed": None}] * 60, "printed": "x"}),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_answers(overt: Run, tmp_path: Path, kind: str) -> None:
    write(tmp_path, forged(FORGED[kind]))
    done = overt("check", "mine.py:attend", "--timeout", "5")
    if done.returncode == 1:
        assert b"crashes" in done.stdout or b"hangs" in done.stdout
        assert done.stderr == b""
    else:
        assert "cannot be understood" in one_line(done)


def test_messages_that_are_none() -> None:
    good = message({"a": 1})[8:]
    assert wire.parse(good)[0] == {"a": 1}
    for data in (b"", b"PK", good[:-10], message([1])[8:], good.replace(b'{"a": 1}', b"[[[[[[[[")):
        with pytest.raises(wire.ForgedError, match="message"):
            wire.parse(data)


def test_texts_of_exceptions_that_are_no_text(overt: Run, tmp_path: Path) -> None:
    write(tmp_path, "def attend(q, k, v):\n    raise ValueError('\\ud800 \\x1b[2J')")
    for arguments in ((), ("--json",), ("--junit", "x.xml")):
        done = overt("check", "mine.py:attend", *arguments)
        assert (done.returncode, done.stderr) == (1, b"")
        assert b"\x1b" not in done.stdout
        done.stdout.decode()
    report = package.check(f"{tmp_path}/mine.py:attend")
    assert "It raises ValueError: � �[2J" in report.text(colour=False)
    assert "\x1b[2J" not in report.text(colour=True)


# In this process.


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(12, 12) for _ in range(4))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        return self.o(self.drop(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)) @ v)


def test_an_instance_is_left_as_it_was() -> None:
    module = Module().train()
    before = copy.deepcopy(module.state_dict())
    seeds = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    saved = torch.get_default_dtype(), torch.nn.functional.dropout, torch.nn.Dropout.forward, sys.stdout
    package.check(module, isolate=False)
    assert module.training
    assert module.drop.training
    for name, tensor in module.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert all(p.grad is None for p in module.parameters())
    assert torch.equal(torch.get_rng_state(), seeds[0])
    assert random.getstate() == seeds[1]
    assert (np.random.get_state()[1] == seeds[2]).all()  # type: ignore[index]  # noqa: NPY002
    assert (torch.get_default_dtype(), torch.nn.functional.dropout, torch.nn.Dropout.forward, sys.stdout) == saved


W_q, W_k, W_v = (np.eye(12) for _ in range(3))


def of_the_module(x: np.ndarray) -> np.ndarray:
    s = (x @ W_q) @ np.swapaxes(x @ W_k, -1, -2) * 12**-0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ (x @ W_v)


def test_what_a_function_reads_is_left_as_it_was() -> None:
    before = [id(x) for x in (W_q, W_k, W_v)]
    package.check(of_the_module, isolate=False)
    assert [id(x) for x in (W_q, W_k, W_v)] == before
    assert all((x == np.eye(12)).all() for x in (W_q, W_k, W_v))


def test_what_cannot_be_copied_is_said() -> None:
    class Held:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
            return q

    with pytest.raises(ArgumentError, match=r"Held cannot be copied.*check its class"):
        package.check(Held(), isolate=False)


def test_control_c_is_for_the_checker() -> None:
    def interrupted(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        signal.raise_signal(signal.SIGINT)
        return q

    with pytest.raises(KeyboardInterrupt):
        package.check(interrupted, isolate=False)
    # A candidate that raises it by itself, in its own process, has an error like any other.
    assert not package.check(interrupted).ok


# What is said of a candidate.


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"timeout": x}, "timeout must be seconds")
            for x in (-1, 0, float("nan"), float("inf"), "20", None, True, 1e9)
        ),
        ({"deadline": -1}, "deadline must be seconds"),
        *(({"memory": x}, "memory must be") for x in (-1, 0, 1.5, "2", None, True)),
        *(({"layout": x}, "layout must be one of BHTD, BTHD") for x in ("XYZ", "bhtd", "", 3)),
        *(({"mask": x}, "mask must be one of keep, drop") for x in ("yes", True, "KEEP")),
        ({"mask": "drop"}, "attend takes no mask"),
        ({"arguments": {"zzz": "q"}}, "attend has no argument zzz: its arguments are q, k, v"),
        ({"arguments": {"q": "queries"}}, "'queries' is no role for q: give one of q, k, v"),
        ({"arguments": {"q": None}}, "None is no role for q"),
        ({"arguments": [("q", "q")]}, "arguments takes roles by name"),
    ],
    ids=repr,
)
def test_what_is_said_is_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        package.check(attend, isolate=False, **options)


def test_the_command_checks_it_too(overt: Run, tmp_path: Path) -> None:
    write(tmp_path, RIGHT)
    for arguments, told in (
        (["--argument", "zzz=q"], "attend has no argument zzz"),
        (["--argument", "q=queries"], "is no role for q"),
        (["--mask", "drop"], "attend takes no mask"),
        (["--timeout", "nan"], "timeout must be seconds"),
    ):
        assert told in one_line(overt("check", "mine.py:attend", *arguments))


def test_arguments_of_a_constructor_may_be_named() -> None:
    class Heads:
        def __init__(self, dim: int, zahl: int) -> None:
            assert (dim, zahl) == (12, 3)

        def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
            return attend(q, k, v)

    # It is found by trying, too.
    assert package.check(Heads).ok
    assert package.check(Heads, arguments={"zahl": "heads"}).ok


@pytest.mark.parametrize(
    ("how", "said"), [("os._exit(3)", "exits"), ("time.sleep(60)", "hangs"), ("os.abort()", "crashes")]
)
def test_what_one_candidate_does_to_its_process_is_nothing_to_the_next(tmp_path: Path, how: str, said: str) -> None:
    write(tmp_path, f"import os, time\n\ndef attend(q, k, v):\n    {how}\n", "bad.py")
    write(tmp_path, RIGHT)
    with Session(timeout=4.0) as session:
        for _ in range(2):
            assert {f.id for f in examine(session, f"{tmp_path}/bad.py:attend").findings} == {said}
            assert examine(session, f"{tmp_path}/mine.py:attend").ok


def test_what_cannot_be_loaded_after_another_is_loaded_by_itself(tmp_path: Path) -> None:
    # As a library whose import a call began, and did not end.
    write(
        tmp_path,
        RIGHT.replace("    s = q", "    sys.begun = True\n    s = q").replace("import", "import sys\nimport", 1),
    )
    write(tmp_path, "import sys\n\nassert not hasattr(sys, 'begun')\n" + RIGHT, "other.py")
    with Session() as session:
        for name in ("mine", "other", "mine", "other"):
            assert examine(session, f"{tmp_path}/{name}.py:attend").ok


def test_a_session_that_is_forged_ends() -> None:
    with Session() as session:
        session._in, before = os.pipe()[0], session._in
        os.close(before)
        read, end = os.pipe()
        os.close(session._in)
        session._in = read
        os.write(end, FORGED["short"])
        with pytest.raises(EndedError, match="wrote to the checker's pipe"):
            session.ask({"op": "load", "target": "x.py:y"})
        assert not session.pid
        os.close(end)
    assert issubclass(ArgumentError, OvertError)
    assert Here(attend).ask({"op": "load", "target": None})[0]["description"]["name"] == "attend"


@pytest.mark.parametrize("separator", [" ", "\n    ", " x ", "x"], ids=repr)
def test_long_documentation_is_read_in_time(separator: str) -> None:
    # As many words as a book; a reader that goes back at each of them takes hours.
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
from overt.check.text.interface import Interface

doc = {separator!r}.join(["mask", "of", "the", "queries", "x", "to", "B", "keys", "values"] * 4_000)
rows = [dict(name=n, required=True, default=None, annotation="", kind="either") for n in ("q", "k", "v", "mask")]
text = f'def attend(q, k, v, mask):\\n    \\"\\"\\"{{doc}}\\"\\"\\"\\n    return q'
told = dict(name="attend", method="", source=text, doc=doc, body=text, helpers=text)
told |= dict(constructor=[], parameters=rows, masks={{}})
face = Interface(told, rows, {{}})
face.layouts, face.declared_mask(), face.declared_mask("mask"), face.boolean_mask, face.told_packing
face.declared_causal, face.counts_itself(), face.declared_grouped, face.declared_unscaled, face.intents
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), timeout=300)
    assert done.returncode == 0, done.stderr.decode()


def test_names_that_shapes_are_unpacked_into() -> None:
    text = "B, H, T, D = q.shape\nb, n, c = x.size()\n# batch, seq = ids.shape; T, D = keys.shape[0]"
    assert list(unpacked(text)) == ["B, H, T, D", "b, n, c"]
    assert list(unpacked("B, T\n = x.shape, H = k.shape")) == ["B, T", ", H"]
