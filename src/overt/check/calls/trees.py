"""Trees, as those of drafts that are read at once: by the node before each, or by how each is come to."""

from __future__ import annotations

# What a tree of as many nodes as there are queries may be told by: an array, or lists.
PARENTS, HUNG, PATHS = TREES = ("parents in a tree", "list of parents", "paths in a tree")


def parents(count: int) -> list[int]:
    """The node that each hangs on, -1 for the root, which is the first: a branch at every second level."""
    return [-1, 0, 0, *(i - 1 - i % 2 for i in range(3, count))][:count]


def paths(count: int) -> list[tuple[int, ...]]:
    """The same by which of the branches is taken at each node from the root on, for all but the root."""
    before, found = parents(count), list[tuple[int, ...]]([()])
    for node, parent in enumerate(before[1:], 1):
        found.append((*found[parent], before[1:node].count(parent)))
    return found[1:]


def ancestors(count: int) -> list[list[bool]]:
    """Of each node whether each other one is on the way from the root to it, as it is itself."""
    found: list[list[bool]] = []
    for node, parent in enumerate(parents(count)):
        before = found[parent] if node else [False] * count
        found.append([one or other == node for other, one in enumerate(before)])
    return found
