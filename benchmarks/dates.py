"""How many of 5,000 fresh dates are read, looking at the right places?  ``python -m benchmarks.dates [MODEL]``"""

from __future__ import annotations

import sys

import numpy as np

from overt.models import load
from overt.training.dates import accuracy, written


def main() -> None:
    rng = np.random.default_rng(5000)
    found = accuracy(load(sys.argv[1] if len(sys.argv) > 1 else "dates"), [written(rng) for _ in range(5000)])
    print(", ".join(f"{name} {share:.2%}" for name, share in found.items()))


if __name__ == "__main__":
    main()
