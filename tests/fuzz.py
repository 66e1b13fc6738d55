"""Problems that nobody has seen before, until the time is up: what `make fuzz` runs.

python tests/fuzz.py --seconds 600 --amplitudes 1e-20 1 30
python tests/fuzz.py --seed 123     # a round of a seed that was printed
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from overt import _native, kernels, reference
from strategies import DTYPES, Case, cases, large_cases
from test_backward import check_gradient
from test_kernels import TINY, TOLERANCE, check_forward, check_statistics, slack
from test_ranges import check as check_ranges

Check = Callable[[str, Case, st.DataObject], None]


def forward(level: str, case: Case, data: st.DataObject) -> None:
    """Output and lse against the definition."""
    check_forward(case, level)


def statistics(level: str, case: Case, data: st.DataObject) -> None:
    """Weights and what is said about them against the definition."""
    check_statistics(case, level, *(data.draw(st.integers(1, 12)) for _ in range(3)))


def gradient(level: str, case: Case, data: st.DataObject) -> None:
    """Gradients against the definition."""
    check_gradient(case, level, data.draw(st.integers(0, 99)))


def threads(level: str, case: Case, data: st.DataObject) -> None:
    """Results of one thread and of several, bit by bit."""
    results = []
    for count in (1, data.draw(st.integers(2, 5))):
        case.options["num_threads"] = count
        problem = case.problem()
        output, lse, along = kernels.attend(problem, level=level)
        found = kernels.gradient(problem, output, lse, output, level=level)
        arrays = [output, lse, *(along or ()), *found[:3], *kernels.statistics(problem, lse, level=level)]
        results.append([x.tobytes() for x in arrays])
    assert results[0] == results[1]


def torchs(level: str, case: Case, data: st.DataObject) -> None:
    """The output against torch's in the same dtype, where torch knows the problem."""
    options = {name: case.options[name] for name in ("mask", "bias") if case.options.get(name) is not None}
    case = Case(case.q, case.k, case.v, options)
    if case.q.shape[-1] != case.k.shape[-1] or 0 in (*case.q.shape, *case.v.shape):
        return
    problem, wide = case.problem(), case.wide().problem()
    steps = {step.name: step.array for step in reference.steps(wide)}
    added = np.zeros((*problem.q.shape[:3], problem.k.shape[2]))
    if problem.bias is not None:
        added = added + problem.bias.at(problem.cells)
    if problem.mask is not None:
        added = np.where(problem.mask.visible(problem.cells), added, -np.inf)

    arrays = [np.array(x, order="C") for x in (problem.q, problem.k, problem.v, added.astype(case.q.dtype))]
    *qkv, added_too = (torch.from_numpy(x) for x in arrays)
    y = torch.nn.functional.scaled_dot_product_attention(*qkv, attn_mask=added_too, enable_gqa=True)
    # Torch has no one answer where nothing is seen.
    seen = np.isfinite(added).any(axis=-1)
    scale = steps["weights"] @ np.abs(steps["value"])
    error = np.abs(kernels.forward(problem, level=level)[0] - y.numpy())[seen]
    assert np.all(error <= 3 * TOLERANCE[case.q.dtype.name] * slack(case) * scale[seen] + 2 * TINY[case.q.dtype.name])


def ranges(level: str, case: Case, data: st.DataObject) -> None:
    """Every pass on scores as large as their type has them."""
    check_ranges(case, level)


CHECKS: dict[str, tuple[Check, tuple[str, ...]]] = {
    "forward": (forward, tuple(DTYPES)),
    "statistics": (statistics, tuple(DTYPES)),
    "gradient": (gradient, tuple(DTYPES)),
    "threads": (threads, tuple(DTYPES)),
    "torch": (torchs, ("float32", "float64")),
    "ranges": (ranges, tuple(DTYPES)),
}


def explore(name: str, level: str, seed: int, examples: int, amplitudes: tuple[float, ...]) -> None:
    """Some problems for one check at one level."""
    check, dtypes = CHECKS[name]
    drawn = large_cases(dtypes) if check is ranges else cases(dtypes, amplitudes)

    @hypothesis.seed(seed)
    @settings(max_examples=examples, deadline=None, derandomize=False, database=None, print_blob=False)
    @given(case=drawn, data=st.data())
    def run(case: Case, data: st.DataObject) -> None:
        check(level, case, data)

    run()


def main() -> None:
    """Rounds of all checks at all levels, each with a seed of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="time to spend (600)")
    parser.add_argument("--seed", type=int, help="one round with this seed")
    parser.add_argument("--examples", type=int, default=25, help="problems for a check at a level in a round (25)")
    parser.add_argument("--amplitudes", type=float, nargs="+", default=[1e-20, 1e-3, 1.0, 1.0, 10.0, 300.0])
    parser.add_argument("--checks", nargs="+", default=list(CHECKS), choices=CHECKS)
    parser.add_argument("--levels", nargs="+", default=kernels.levels(), choices=kernels.levels())
    asked: Any = parser.parse_args()
    _native.poison(True)
    end, problems = time.monotonic() + asked.seconds, 0
    while True:
        seed = secrets.randbits(32) if asked.seed is None else asked.seed
        for level in asked.levels:
            for name in asked.checks:
                if problems and asked.seed is None and time.monotonic() > end:
                    print(f"{problems} problems, and nothing wrong")
                    return
                print(f"seed {seed}: {name} on {level}", flush=True)
                explore(name, level, seed, asked.examples, tuple(asked.amplitudes))
                problems += asked.examples
        if asked.seed is not None:
            return


if __name__ == "__main__":
    main()
