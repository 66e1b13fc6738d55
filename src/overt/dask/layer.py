"""Tasks, and the graphs that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from overt import parts
from overt.dask.chunks import Chunks, Sizes, place_of
from overt.problem import Problem

# The key of a task.
Key = tuple[Any, ...]


class Layer:
    """Tasks of one kind, and the graph that they complete.

    before: layers and arrays that the tasks read, and whatever else makes them different from others of their kind.
    """

    def __init__(self, chunks: Chunks, kind: str, *before: Any) -> None:
        self.chunks = chunks
        self._before = [x for x in before if isinstance(x, Layer | da.Array)]
        self.name: str = f"overt-{kind}-{tokenize(chunks.token, *(getattr(x, 'name', x) for x in before))}"
        self._tasks: dict[Any, Any] = {}

    def key(self, name: str, number: tuple[int, ...]) -> Key:
        """The key of a task."""
        return (f"{name}-{self.name}" if name else self.name, *number)

    def put(self, name: str, number: tuple[int, ...], function: Callable[..., Any], *given: Any) -> Key:
        """Add a task, and give its key."""
        key = self.key(name, number)
        self._tasks[key] = (function, *given)
        return key

    def tree(
        self, name: str, number: tuple[int, ...], keys: Sequence[Key], join: Callable[..., Any], fan: int = 4
    ) -> None:
        """Tasks that join neighbours until one is left, which has the name."""
        while len(keys) > fan:
            groups = [keys[i : i + fan] for i in range(0, len(keys), fan)]
            keys = [
                self.put(f"{name or 'tree'}-{len(groups)}", (*number, n), join, list(group))
                for n, group in enumerate(groups)
            ]
        self.put(name, number, join, list(keys))

    def sums(
        self, adding: Iterable[tuple[Key, tuple[int, ...]]], item: int | str, sizes: Sizes, dtype: np.dtype
    ) -> da.Array:
        """The array of these chunks, each the sum of what tasks have found for its number as this item."""
        found: dict[tuple[int, ...], list[Key]] = {}
        for n, (key, number) in enumerate(adding):
            found.setdefault(number, []).append(self.put("part", (n,), self.item, key, item, dtype))
        for number in product(*(range(len(axis)) for axis in sizes)):
            shape = [axis[i] for axis, i in zip(sizes, number, strict=True)]
            self.tree("", number, found.get(number) or [self.put("zeros", number, np.zeros, shape, dtype)], _sum)
        return self.array(sizes, dtype)

    def array(self, sizes: Sizes, dtype: np.dtype) -> da.Array:
        """The array whose chunks are the tasks without a name."""
        return da.Array(self.graph, self.name, sizes, dtype=dtype)

    @staticmethod
    def item(found: Any, place: int | str, dtype: np.dtype) -> np.ndarray:
        """A task: one thing of those that another has found."""
        return found[place].astype(dtype, copy=False)

    @cached_property
    def graph(self) -> HighLevelGraph:
        """With all that it needs."""
        chunks = self.chunks
        arrays = [*chunks.arrays, *chunks.held.values(), *(x for x in self._before if isinstance(x, da.Array))]
        before = [x for x in self._before if isinstance(x, Layer)]
        layers: dict[str, Any] = {}
        needed: dict[str, set[str]] = {}
        for graph in [layer.graph for layer in before] + [x.dask for x in arrays]:
            layers |= graph.layers
            needed |= graph.dependencies
        asked = chunks.asked_key
        layers |= {asked: {asked: chunks.asked}, self.name: self._tasks}
        own = {asked, *(layer.name for layer in before), *(name for x in arrays for name in x.__dask_layers__())}
        return HighLevelGraph(layers, needed | {asked: set(), self.name: own})


def block(
    function: Callable[..., Any],
    asked: Problem,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    biases: Sequence[np.ndarray],
    place: list[list[int]],
    *given: Any,
) -> Any:
    """A task: one pair of chunks."""
    return function(parts.block(asked, q, k, v, place_of(place), mask=mask, biases=biases), *given)


def _sum(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return sum(arrays[1:], start=arrays[0])
