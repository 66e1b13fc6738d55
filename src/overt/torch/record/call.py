"""One call of attention, as it ran: what was compared, what was hidden, what came out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from overt import given
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.torch.record.arrays import array
from overt.torch.record.visible import Visible

# A log-sum-exp up to that is exact enough to divide by.
_LARGE = 1000
# So many cells of weights are held at once.
_CELLS = 1 << 20


@dataclass(eq=False)
class Call:
    """Attention of q (B, H, T, D) to k (B, G, S, D), with values (B, G, S, E) and output (B, H, T, E).

    way: how it was seen: "interface", "sdpa", "flex" or "softmax".
    bias: (B or 1, H or 1, T, S).  sinks: (H,).  lse: (B, H, T), where the model's own kernel gave it.
    weights: (B, H, T, S), where a softmax was seen and q and k were not; these are then empty.
    dropped: whether the model dropped weights, so that its output is not that of the weights.
    grad: whether gradients are to flow through it.
    along: received (B, H, S) and entropy (B, H, T), where they came along with something else.
    unknown: arguments that nobody here understands.
    places: of each row (B, H, T) that among the rows of the model's own output, where they do not lie as these do.
    sizes: B, H, T and S.  wide: the dtype of scores and statistics.
    """

    way: str
    q: Tensor
    k: Tensor
    v: Tensor
    output: Tensor
    scale: float
    visible: Visible
    bias: Tensor | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    lse: Tensor | None = None
    weights: Tensor | None = None
    dropped: bool = False
    grad: bool = False
    along: tuple[Tensor, Tensor] | None = None
    unknown: tuple[str, ...] = ()
    places: Tensor | None = None

    def __post_init__(self) -> None:
        B, H, T = self.q.shape[:3]
        self.sizes = B, H, T, self.k.shape[2]
        self.wide = torch.float64 if self.q.dtype == torch.float64 else torch.float32

    @property
    def near(self) -> bool:
        """Whether it lies in the memory that overt's kernels reach."""
        return self.q.is_cpu

    def settle(self) -> None:
        """Let queries see all keys alike of which finite numbers hide every key, unless they put out zeros.

        Numbers as large swallow scores, but for those of float16 in a kernel, which adds up in float32.
        """
        alike = self.visible.alike
        # A sink takes all.
        if alike is None or self.sinks is not None:
            return
        rows = torch.from_numpy((self.visible.counts == 0) & (alike.counts > 0)).to(self.q.device)[..., None]
        if not bool((rows & (self.output != 0)).any()):
            return
        if self.q.dtype != torch.float16 or (self.way != "sdpa" and self.lse is None):
            self.q = self.q.masked_fill(rows, 0)
            self.bias = None if self.bias is None else self.bias.masked_fill(rows, 0)
        self.visible, self.lse = alike, None

    def rows(self, at: slice) -> Tensor:
        """Weights (B, H, N, S) of some queries, from q, k and the lse, in torch."""
        if self.weights is not None:
            return self.weights[:, :, at].to(self.wide)
        assert self.lse is not None
        (B, H, _, S), G = self.sizes, self.k.shape[1]
        q = self.q[:, :, at].to(self.wide)
        N = q.shape[2]
        scores = (q.reshape(B, G, H // G * N, -1) @ self.k.to(self.wide).mT).mul_(self.scale).reshape(B, H, N, S)
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + (self.bias[:, :, at] if self.bias.shape[2] > 1 else self.bias)
        lse = self.lse[:, :, at, None]
        weights = (scores - lse).exp_()
        # What is hidden may be anything, and queries that see nothing have an lse of −∞.
        weights = torch.where(self.visible.rows(at, S, scores.device), weights, 0.0)
        if (large := self._large(lse)) is not None:
            weights = torch.where(large, weights / weights.sum(-1, keepdim=True), weights)
        return weights

    def _large(self, lse: Tensor) -> Tensor | None:
        """Rows where numbers as large as those that hide keys leave no place for the rest of an lse, None for none."""
        if self.bias is None or self.sinks is not None:
            return None
        large = lse.isfinite() & (lse.abs() > _LARGE)
        return large if bool(large.any()) else None

    def at(self, keys: np.ndarray) -> Tensor:
        """Weight (B, H, T) of one key for each query: keys (B, T), −1 for none; NaN for none and for a blind query."""
        B, H, T = self.sizes[:3]
        none, keys = keys < 0, np.maximum(keys, 0)
        place = torch.from_numpy(keys).to(self.q.device)[:, None, :, None].expand(B, H, T, 1)
        assert self.lse is not None
        if self.weights is not None:
            found = self.weights.gather(3, place)[..., 0].to(self.wide)
        else:
            found = self._weighed(keys, place)
        gone = torch.from_numpy(none[:, None]).to(found.device) | (self.lse == -torch.inf)
        return found.masked_fill(gone, torch.nan)

    def _weighed(self, keys: np.ndarray, place: Tensor) -> Tensor:
        """The same from q, k and the lse; place: (B, H, T, 1), the keys once more."""
        assert self.lse is not None
        B, H, T, S = self.sizes
        scores = self._against(keys).mul_(self.scale)
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + self.bias.expand(B, H, T, S).gather(3, place)[..., 0]
        # What is hidden from its query has weight 0.
        hidden = torch.from_numpy(~self.visible.at(keys)).to(scores.device)
        found = (scores - self.lse).exp_().masked_fill_(hidden, 0)
        if (large := self._large(self.lse)) is not None:
            N = max(1, _CELLS // (B * H * S))
            for at in (slice(start, start + N) for start in range(0, T, N)):
                if bool(large[:, :, at].any()):
                    found[:, :, at] = self.rows(at).gather(3, place[:, :, at])[..., 0]
        return found

    def _against(self, keys: np.ndarray) -> Tensor:
        """Each query times a key of its own, (B, T): (B, H, T)."""
        (B, H, T, _), G, wide = self.sizes, self.k.shape[1], self.wide
        q, k, rows = self.q.reshape(B, G, H // G, T, -1), self.k.transpose(1, 2), np.arange(B)[:, None]
        if q.dtype == wide and self.near:
            # NumPy adds up products without making them.
            found = torch.from_numpy(np.einsum("bgrtd,btgd->bgrt", array(q), array(k)[rows, keys]))
        else:
            own = k[torch.from_numpy(rows).to(k.device), torch.from_numpy(keys).to(k.device)]
            found = (q.to(wide) * own.to(wide).transpose(1, 2)[:, :, None]).sum(-1)
        return found.reshape(B, H, T)

    def problem(self, *, values: bool = False) -> Problem:
        """The same as a problem, without values unless they are asked for: of arrays, or of tensors elsewhere."""
        if self.weights is not None:
            return given.problem(array(self.weights.to(self.wide)))
        here = array if self.near else Tensor.detach
        q, k = here(self.q), here(self.k)
        return Problem.of(
            q,
            k,
            here(self.v) if values else k[..., :0],
            score=scaled_dot(self.scale),
            mask=self.visible.mask,
            bias=None if self.bias is None else here(self.bias.to(self.wide)),
            softcap=self.softcap,
            sinks=None if self.sinks is None else here(self.sinks.to(self.wide)),
            num_threads=torch.get_num_threads(),
        )


def called(name: str) -> str:
    """A module by its name, as people read it."""
    return name or "(model)"
