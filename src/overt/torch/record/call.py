"""One call of attention, as it ran: what was compared, what was hidden, what came out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from overt import given
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.torch.record.arrays import array, owned
from overt.torch.record.visible import Visible


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

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, H, T and S."""
        B, H, T = self.q.shape[:3]
        return B, H, T, self.k.shape[2]

    @property
    def wide(self) -> torch.dtype:
        """The dtype of scores and statistics."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    def rows(self, at: list[int]) -> Tensor:
        """Weights (B, H, N, S) of N queries, from q, k and the lse, in torch."""
        if self.weights is not None:
            return self.weights[:, :, at].to(self.wide)
        assert self.lse is not None
        (B, H, _, S), G, N = self.sizes, self.k.shape[1], len(at)
        q = self.q[:, :, at].to(self.wide).reshape(B, G, H // G * N, -1)
        scores = (q @ self.k.to(self.wide).mT).mul_(self.scale).reshape(B, H, N, S)
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + self.bias[:, :, at if self.bias.shape[2] > 1 else [0]]
        seen = self.visible.rows(at, S, scores.device)
        lse = self.lse[:, :, at].to(self.wide)[..., None]
        return torch.where(seen & (lse > -torch.inf), (scores - lse).exp(), 0.0)

    def at(self, keys: Tensor) -> Tensor:
        """Weight (B, H, T) of one key for each query: keys (B, T), −1 for none; NaN for none and for a blind query."""
        (B, H, T, S), G = self.sizes, self.k.shape[1]
        none, keys = keys < 0, keys.clamp(min=0)
        if self.weights is not None:
            found = self.weights.gather(3, keys[:, None, :, None].expand(B, H, T, 1))[..., 0].to(self.wide)
            return found.masked_fill(none[:, None], torch.nan)
        assert self.lse is not None
        picked = self.k.gather(2, keys[:, None, :, None].expand(B, G, T, self.k.shape[-1]))
        picked = picked.to(self.wide).repeat_interleave(H // G, 1)
        scores = (self.q.to(self.wide) * picked).sum(-1) * self.scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            bias = self.bias.expand(B, H, T, S)
            scores = scores + bias.gather(3, keys[:, None, :, None].expand(B, H, T, 1))[..., 0]
        visible = np.broadcast_to(self.visible.at(keys.cpu().numpy()), (B, H, T))
        seen = owned(visible).to(scores.device)
        lse = self.lse.to(self.wide)
        blind = lse == -torch.inf
        found = torch.where(seen & ~blind, (scores - lse).exp(), 0.0)
        return found.masked_fill(none[:, None] | blind, torch.nan)

    def problem(self, *, values: bool = False) -> Problem:
        """The same as a problem of arrays, without values unless they are asked for."""
        if self.weights is not None:
            return given.problem(array(self.weights.to(self.wide)))
        q, k = array(self.q), array(self.k)
        v = array(self.v) if values else np.empty((*k.shape[:3], 0), k.dtype)
        bias = None if self.bias is None else array(self.bias.to(self.wide))
        return Problem.of(
            q,
            k,
            v,
            score=scaled_dot(self.scale),
            mask=self.visible.mask,
            bias=bias,
            softcap=self.softcap,
            sinks=None if self.sinks is None else array(self.sinks.to(self.wide)),
            num_threads=torch.get_num_threads(),
        )
