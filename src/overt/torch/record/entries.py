"""What a recording gives: attention of which some answers were kept, and the others are refused in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NoReturn

import numpy as np

from overt.attended import Attended
from overt.errors import ArgumentError, RecordingError
from overt.grid import Array, whole
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.torch.record.call import called
from overt.torch.record.chain import Chain
from overt.weights import Weights


class Recorded(Attended[Any]):
    """Attention that a model computed, as an ``Attended`` of arrays.

    Its output and values stayed with the model.  Recorded with keep="statistics" it has lse, received, entropy and top,
    and no cells; with keep="qk" or keep="disk" it has every cell.

    name: of the module that computed it.  steps: how many calls are joined in it.
    deviation: how far its weights times the values were from the model's own output, at most; None if unchecked.
    """

    def __init__(self, name: str, chain: Chain, index: int | None = None) -> None:
        """index: one call of the chain, None for all of them joined."""
        links = chain.links if index is None else [chain.links[index]]
        last = links[-1]
        self.name, self.steps, self._chain, self._index = name, len(links), chain, index
        found = [link.deviation for link in links if link.deviation is not None]
        self.deviation = max(found) if found else None
        self.way = last.way
        # The first key that anybody sees, (B or 1,), how many keys each query sees, (B or 1, H or 1, T), and how many
        # queries see any, (B, H).
        self.start = links[0].start + (links[0].offset if index is None else 0)
        self.counts = chain.counts(index)
        # At which key the first query stands, None where keys are no places of queries; the tokens (B, T), if known.
        self.base = chain.base(chain.links[0] if index is None else last)
        self.ids = chain.ids if index is None else last.ids
        self._cells = last.statistics is None
        lse = np.ascontiguousarray(chain.lse(index))
        self.rows = (lse > -np.inf).sum(-1)
        problem = chain.problem(index) if self._cells else _hollow(chain, index, lse.shape[2])
        super().__init__(problem, (np.empty((*lse.shape, 0), problem.q.dtype), lse))
        if not self._cells:
            self._top = chain.top(index)

    @property
    def kept(self) -> Callable[[str], np.ndarray | None] | None:
        """The statistics of queries by name, (B, H, T), where these were kept and cells were not."""
        return None if self._cells else partial(self._chain.per_row, index=self._index)

    def __repr__(self) -> str:
        kept = "every cell" if self._cells else "statistics"
        return f"Recorded({self.name!r}, weights {self.problem.shape.full}, {self.steps} calls, {kept} kept)"

    @property
    def output(self) -> Array:
        """Not kept: the model gave it away."""
        raise RecordingError(f"{called(self.name)}: the output was not kept; the model's own modules give it")

    @property
    def weights(self) -> Weights:
        """(B, H, T, S), computed when indexed, and only the cells asked for."""
        if not self._cells:
            self._refuse("weights")
        return super().weights

    def received(self) -> Array:
        """(B, H, S) attention that each key receives, from all calls together.  Read-only."""
        return super().received() if self._cells else self._lent(self._chain.received(self._index))

    def entropy(self) -> Array:
        """(B, H, T) entropy of each row of weights, in nats; what a sink takes is not counted.  Read-only."""
        return super().entropy() if self._cells else self._lent(self._chain.per_row("entropy", self._index))

    def top(self, k: int) -> tuple[Array, Array]:
        """Indices and weights, each (B, H, T, k), of the k heaviest keys, largest first, ties to the lower index."""
        if self._cells:
            return super().top(k)
        most = 0 if self._top is None else self._top[0].shape[-1]
        if not 1 <= whole("k", k) <= self.problem.shape.S:
            raise ArgumentError(f"top(k) wants 1 ≤ k ≤ S = {self.problem.shape.S}, not {k}")
        if k > most:
            raise RecordingError(
                f"{called(self.name)}: the {most} heaviest keys of each query were kept, not {k}: record with top={k}"
            )
        assert self._top is not None
        indices, weights = self._top
        return indices[..., :k], weights[..., :k]

    def map(self, rows: int, columns: int, pool: Literal["max", "mean"] = "max") -> Array:
        """(B, H, rows, columns) picture of the whole matrix, see ``Attended.map``."""
        if not self._cells:
            self._refuse("a map")
        return super().map(rows, columns, pool)

    def gradient(self, dy: Array, dlse: Array | None = None) -> NoReturn:
        """Not known: it needs values, which the model kept to itself."""
        raise RecordingError(f"{called(self.name)}: a record has no gradient; the model's own backward gives it")

    def _refuse(self, what: str) -> NoReturn:
        raise RecordingError(
            f'{called(self.name)}: only statistics were kept, so there are no cells for {what}: record with keep="qk", '
            'or keep="disk"'
        )


def _hollow(chain: Chain, index: int | None, T: int) -> Problem:
    """A problem that has a shape and nothing else."""
    last = chain.links[-1 if index is None else index]
    S = chain.width if index is None else last.S
    q = np.empty((last.batch, last.heads, T, 0), last.wide)
    k = np.empty((last.batch, last.key_heads, S, 0), last.wide)
    return Problem.of(q, k, k, score=scaled_dot(1.0))
