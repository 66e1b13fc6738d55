"""Everything that threads share, from several threads of Python too: what `make tsan` runs under ThreadSanitizer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import overt
from overt import _native, kernels
from overt.problem import Problem

OPTIONS = (
    {},
    {"mask": overt.causal(), "sinks": np.zeros(4, np.float32)},
    {"mask": overt.keep(np.arange(150) % 5 > 0), "bias": np.zeros((200, 150), np.float32), "softcap": 5.0},
    {"dropout": overt.dropout(0.1, 1), "score": overt.additive(*np.ones((2, 4, 16)), np.ones(4))},
)


def everything(kind: int, T: int, S: int, threads: int, level: str) -> list[bytes]:
    """The bytes of all that the kernels find."""
    rng = np.random.default_rng(T * S + kind)
    q, k, v = (rng.normal(size=(1, h, n, 16)).astype(np.float32) for h, n in ((4, T), (2, S), (2, S)))
    options = OPTIONS[kind] if (T, S) == (200, 150) else {}
    problem = Problem.of(q, k, v, **{"score": overt.scaled_dot(), "num_threads": threads, **options})
    output, lse, along = kernels.attend(problem, level=level)
    gradient = kernels.gradient(problem, output, lse, output, level=level)
    rows, columns = (np.array([[0, n // 2 + 1], [n // 2, n]]) for n in (T, S))
    found = [output, lse, *(along or ()), *gradient[:3], *kernels.statistics(problem, lse, level=level)]
    found += [*kernels.top(problem, lse, 2, level=level), kernels.weights(problem, lse, level=level)]
    found += [kernels.pooled(problem, lse, rows, columns, pool, level=level) for pool in ("max", "mean")]
    return [x.tobytes() for x in found]


def main() -> None:
    """Compare several threads with one, and several callers with one after the other."""
    _native.poison(True)
    for level in overt.kernels.levels():
        asked = [(kind, T, S) for T, S in ((200, 150), (4, 3000), (600, 40)) for kind in range(len(OPTIONS))]
        expected = {one: everything(*one, 1, level) for one in asked}
        for threads in (2, 3):
            for one in asked:
                assert everything(*one, threads, level) == expected[one], (one, threads)
        with ThreadPoolExecutor(3) as pool:
            again = [pool.submit(everything, *one, 3, level) for one in asked]
            for one, found in zip(asked, again, strict=True):
                assert found.result() == expected[one], one
    print("no races")


if __name__ == "__main__":
    main()
