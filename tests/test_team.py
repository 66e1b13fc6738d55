"""Training under torchrun: any number of processes makes the same model, bit for bit, and goes on with any run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
from overt import models

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero"]
OPTIONS = ["--width=16", "--heads=2", "--inner=32", "--layers=1", "--vocabulary-size=30"]
OPTIONS += ["--epochs=2", "--batch-tokens=120", "--score-every=2"]

# The command, whose first process dies where nobody expects it, some steps after it has saved.
DIES = """
import os, signal, sys
from overt.cli import main
from overt.training.loop import Training

learn = Training.learn

def learn_and_die(self, data, total):
    if self.progress.step == 26:
        self.save(self.path)
    if self.progress.step == 29 and self.team.leads:
        os.kill(os.getpid(), signal.SIGKILL)
    return learn(self, data, total)

restore = Training.run

def run(self, output, **options):
    from overt.training.loop import files
    self.path = files(output)[0]
    return restore(self, output, **options)

Training.learn, Training.run = learn_and_die, run
main(sys.argv[1:])
"""


def trained(processes: int, program: list[str], folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    """What torchrun makes of the command in so many processes."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *program, "train", "pairs.tsv", *OPTIONS, *given],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def parameters(path: Path) -> dict[str, Any]:
    return dict(models.load(path).checkpoint.parameters)


def test_any_number_of_processes_makes_the_same_model(tmp_path: Path) -> None:
    random.seed(0)
    with (tmp_path / "pairs.tsv").open("w") as file:
        for _ in range(400):
            digits = [random.randrange(10) for _ in range(random.randrange(1, 5))]
            file.write(" ".join(WORDS[i - 1] for i in digits) + "\t" + "".join(map(str, digits)) + "\n")
    overt = ["-m", "overt"]
    done = trained(1, overt, tmp_path, "--threads", "4", "-o", "one.safetensors")
    assert done.returncode == 0, done.stderr
    (tmp_path / "dies.py").write_text(DIES)
    done = trained(2, ["dies.py"], tmp_path, "--threads", "2", "-o", "many.safetensors")
    assert done.returncode != 0
    assert not (tmp_path / "many.safetensors").exists()
    assert (tmp_path / "many.training.safetensors").exists()
    # Four shares on three processes.
    done = trained(3, overt, tmp_path, "--resume", "-o", "many.safetensors")
    assert done.returncode == 0, done.stderr
    assert "goes on after step 26" in done.stderr
    # One process says what happens.
    assert done.stderr.count("kept epoch") == 1
    assert not (tmp_path / "many.training.safetensors").exists()

    expected, found = (parameters(tmp_path / f"{name}.safetensors") for name in ("one", "many"))
    assert all(np.array_equal(expected[key], found[key]) for key in expected)
    logs = {(tmp_path / f"{name}.jsonl").read_text().count('"event": "epoch"') for name in ("one", "many")}
    assert logs == {2}
