"""Threads of Python and forked processes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import overt


def test_two_python_threads_agree_with_one() -> None:
    rng = np.random.default_rng(0)
    # Of all sizes, since a call may find the memory of another one.
    inputs = [[rng.normal(size=(2, 60 * n, 40)).astype(np.float32) for _ in range(3)] for n in range(1, 9)]

    def everything(qkv: list[np.ndarray]) -> list[bytes]:
        seen = overt.attend(*qkv, mask=overt.causal())
        results = seen.output, seen.lse, seen.received(), seen.entropy(), *seen.top(3), seen.map(7, 9)
        return [x.tobytes() for x in results]

    expected = [everything(qkv) for qkv in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(everything, inputs)) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork_after_use_does_not_hang() -> None:
    # In a process of its own, so that a hang is a time-out and not the end of the test run.
    code = """
import os, sys
import numpy as np
import overt

q, k, v = (np.random.default_rng(i).normal(size=(8, 512, 64)).astype(np.float32) for i in range(3))
parent = overt.attention(q, k, v)
for _ in range(3):
    pid = os.fork()
    if not pid:
        os._exit(0 if (overt.attention(q, k, v) == parent).all() else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (overt.attention(q, k, v) == parent).all()
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_threads_are_those_that_were_asked_for() -> None:
    code = """
import threadpoolctl
import overt
assert overt.get_num_threads() == 3
with threadpoolctl.threadpool_limits(1, user_api="openmp"):
    assert overt.get_num_threads() == 1
overt.set_num_threads(2)
assert overt.get_num_threads() == 2
overt.set_num_threads(None)
assert overt.get_num_threads() == 3
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
