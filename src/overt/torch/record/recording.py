"""``overt.record``: what a model attends to, seen while it runs on its own kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from torch import nn

from overt.errors import ArgumentError, DtypeError, RecordingError
from overt.grid import shown, whole
from overt.torch.record import files, labels, measures, summaries, table
from overt.torch.record.call import called
from overt.torch.record.chain import Chain
from overt.torch.record.entries import Recorded
from overt.torch.record.keeping import Keeper
from overt.torch.record.measures import Measures
from overt.torch.record.places import Layers
from overt.torch.record.session import Session
from overt.views import View
from overt.views.labels import Labelled


def record(
    model: nn.Module,
    *,
    layers: Layers = None,
    keep: Literal["statistics", "qk", "disk"] = "qk",
    top: int = 0,
    limit: int | None = None,
    compute: Literal["model", "overt"] = "model",
    check: bool = True,
    folder: str | Path | None = None,
) -> Recording:
    """A context in which everything that a model attends to is recorded, on its own fused kernels.

    ::

        with overt.record(model) as rec:
            model(**inputs)
        print(rec)
        rec["model.layers.3.self_attn"].weights[0, 5, -1]

    model: any ``torch.nn.Module``: its attention is seen in the interface of Hugging Face transformers, in
    ``scaled_dot_product_attention``, ``MultiheadAttention``, FlexAttention, and in a softmax of its own code.
    layers: which modules: a glob, such as ``"*.self_attn"``, several, a function of the name, or all.
    keep: "statistics" (lse, received, entropy and the ``top`` heaviest keys: linear and small), "qk" (queries and keys,
    from which any cell can be computed later) or "disk" (the same, in files that are mapped into memory, in ``folder``
    or in one that goes with the recording).
    limit: bytes that may be held; what would need more raises before it is spent.
    compute: "model" observes and changes no bit; "overt" puts overt's kernel in the place of the model's (CPU, without
    gradients).
    check: at three rows of every call, compare the recorded weights times the values with the model's own output.

    Raises RecordingError: on the way, where the check fails or the limit is reached; at the end, where nothing was
    recorded, where an attention could not be followed, or where the model ran in another thread.
    """
    if not isinstance(model, nn.Module):
        raise DtypeError(f"overt.record takes a torch.nn.Module, not {type(model).__name__}")
    if compute not in ("model", "overt"):
        raise ArgumentError(f'compute must be "model" or "overt", not {compute!r}')
    if not isinstance(check, bool | np.bool_):
        raise DtypeError(f"check says whether weights are compared, True or False, not {shown(check)}")
    keeper = Keeper(keep, whole("top", top), None if limit is None else whole("limit", limit), folder)
    session = Session(model, layers, keeper, compute, bool(check))
    return Recording(session.chains, session)


def load(path: str | Path) -> Recording:
    """What ``Recording.save`` wrote, each attention as one call; nothing is unpickled.

    Raises FileError for a file that cannot be read, and for one that is no recording.
    """
    chains, without, unseen = files.load(path)
    return Recording(chains, None, without, unseen)


class Recording:
    """What ``overt.record`` saw: attention by the names of modules, in order of execution.

    ``names``; ``rec[name]``, all calls joined; ``rec.calls(name)``, each call; iterating gives the names.
    ``print(rec)`` is a table.  ``without`` names layers that have no attention, beside others that have; ``unseen``
    those of which nobody knows, with the reason.
    """

    def __init__(
        self,
        chains: dict[str, list[Chain]],
        session: Session | None,
        without: Sequence[str] = (),
        unseen: Mapping[str, str] | None = None,
    ) -> None:
        """session: what fills the chains, None where they were loaded; then without and unseen are known too."""
        self._session, self._chains, self._without, self._unseen = session, chains, list(without), dict(unseen or {})
        self._made: dict[tuple[str, int | None], tuple[int, Recorded]] = {}
        self._started = False

    def __enter__(self) -> Self:
        if self._started or self._session is None:
            raise RecordingError("a recording runs once: make another one with overt.record(model)")
        self._started = True
        self._session.start()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        assert self._session is not None
        self._session.stop()
        self._without, self._unseen = self._session.without(), self._session.unseen
        if kind is None:
            self._session.complain()

    @property
    def names(self) -> list[str]:
        """Names of what was recorded, in order of execution; the second attention of a module is ``name#2``."""
        return list(self._chains)

    @property
    def without(self) -> list[str]:
        """Layers that have no attention, such as those of a hybrid with state spaces, beside others that have."""
        return list(self._without)

    @property
    def unseen(self) -> dict[str, str]:
        """Modules in which something ran that may attend and shows nothing of it, and what: NumPy, for one."""
        return dict(self._unseen)

    @property
    def nbytes(self) -> int:
        """Bytes that are held, masks and biases apart, which layers share."""
        return sum(link.nbytes for chains in self._chains.values() for chain in chains for link in chain.links)

    def __len__(self) -> int:
        return len(self._chains)

    def __iter__(self) -> Iterator[str]:
        return iter(self._chains)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._chains

    def __getitem__(self, name: str) -> Recorded:
        chains = self._of(name)
        if len(chains) > 1:
            several = ", ".join(f"{chain.rows} × {chain.width}" for chain in chains[:4])
            raise RecordingError(
                f"{called(name)} attended {len(chains)} times to texts that do not continue one another, or not with "
                f"certainty ({several}{', …' if len(chains) > 4 else ''}), which make no one matrix: ask "
                f"rec.calls({name!r})"
            )
        return self._recorded(name, 0, None)

    def calls(self, name: str) -> list[Recorded]:
        """Each call by itself: for a model that generates, the prompt and then one step after another."""
        return [self._recorded(name, i, j) for i, chain in enumerate(self._of(name)) for j in range(len(chain.links))]

    def measures(
        self, ids: Any = None, special: Collection[int] = (), names: str | Iterable[str] | None = None
    ) -> dict[str, Measures]:
        """For each name the measures of its heads: sinks, entropy, the previous token, induction, special tokens.

        ids: tokens (T,) or (B, T) of the queries, where the model was given none.  special: ids of special tokens.
        """
        return {name: measures.measures(self[name], ids, special) for name in self._several(names)}

    def mass(
        self, keys: Mapping[str, Any], queries: Any = None, names: str | Iterable[str] | None = None
    ) -> dict[str, dict[str, np.ndarray]]:
        """Share (B, H) of attention that some keys receive, by their label and then by the name of the attention.

        keys: such as ``{"needle": slice(530, 545)}``, slices or indices.  queries: whose attention, such as −1 for the
        last one, by default that of all; some queries alone need cells.
        """
        if not isinstance(keys, Mapping):
            raise DtypeError(f'keys must have labels, such as {{"needle": slice(530, 545)}}, and not be {shown(keys)}')
        chosen = self._several(names)
        return {
            label: {name: measures.mass(self[name], some, queries) for name in chosen} for label, some in keys.items()
        }

    def mean(self, names: str | Iterable[str] | None = None, *, layers: bool = True, heads: bool = True) -> np.ndarray:
        """Weights (L, B, H, T, S) of attentions of one shape, without the axes over which the mean is taken."""
        return summaries.mean((self[name] for name in self._several(names)), layers=layers, heads=heads)

    def rollout(self, names: str | Iterable[str] | None = None, *, residual: float = 0.5) -> np.ndarray:
        """Attention rollout (B, T, T): how much each position in the end has of each in the beginning.

        Each layer is (1 − residual) · mean over heads + residual · identity, with rows that sum to 1, and layers are
        multiplied.  Abnar & Zuidema 2020 (arXiv:2005.00928).
        """
        return summaries.rollout((self[name] for name in self._several(names)), residual)

    def save(self, path: str | Path) -> Path:
        """Write an .npz for ``overt.torch.record.load``: each attention joined, as much of it as was kept."""
        return files.save(self._chains, self._without, self._unseen, path)

    def labelled(self, tokens: Sequence[str] | None = None, queries: Sequence[str] | None = None) -> list[Labelled]:
        """Each attention with names for its keys and queries, where as many were given, and its layer's number."""
        return labels.labelled(self, tokens, queries)

    def view(
        self, tokens: Sequence[str] | None = None, queries: Sequence[str] | None = None, title: str = "attention"
    ) -> View:
        """What ``overt.show`` shows."""
        return View(self.labelled(tokens, queries), title=title)

    def page(
        self,
        path: str | Path,
        tokens: Sequence[str] | None = None,
        queries: Sequence[str] | None = None,
        title: str = "attention",
    ) -> Path:
        """Write one HTML file that needs nothing else and recomputes any cell, see ``View.page``."""
        return self.view(tokens, queries, title).page(path)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(table.text(self))}</pre>"

    def __repr__(self) -> str:
        return f"Recording({len(self)} attentions, {sum(len(self.calls(name)) for name in self)} calls): print it"

    def __str__(self) -> str:
        return table.text(self)

    def _several(self, names: str | Iterable[str] | None) -> list[str]:
        if isinstance(names, str):
            return [name for name in self if fnmatchcase(name, names)] or [names]
        if names is None:
            return self.names
        if not isinstance(names, Iterable):
            raise DtypeError(f"names must be a glob of names, several names, or None, not {shown(names)}")
        return list(names)

    def _of(self, name: str) -> list[Chain]:
        try:
            return self._chains[name]
        except (KeyError, TypeError):
            some = ", ".join(self.names[:6]) + (", …" if len(self) > 6 else "")
            raise ArgumentError(f"nothing was recorded under {name!r}; the names are {some or 'none'}") from None

    def _recorded(self, name: str, place: int, index: int | None) -> Recorded:
        chain = self._chains[name][place]
        key, count = (name, -1 - place if index is None else place << 32 | index), len(chain.links)
        # A chain that has grown since is made anew.
        if key not in self._made or self._made[key][0] != count:
            self._made[key] = count, Recorded(name, chain, index)
        return self._made[key][1]
