"""Small inference server layer: streaming attention with learned sinks (gpt-oss style)."""
from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import Tensor


@dataclass
class LayerWeights:
    wq: Tensor   # (H*D, E)
    wk: Tensor   # (K*D, E)
    wv: Tensor   # (K*D, E)
    wo: Tensor   # (E, H*D)
    sinks: Tensor  # (H,) one logit per query head; takes weight, has no value


@dataclass
class Session:
    k: Optional[Tensor] = None   # (S, K, D)
    v: Optional[Tensor] = None
    log: list = field(default_factory=list)

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k])
        self.v = v if self.v is None else torch.cat([self.v, v])
        self.log.append(k.shape[0])
        return self.k, self.v


def sink_attention(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: int = 0) -> Tensor:
    """q (T,H,D); k, v (S,K,D), the T queries being the last T of the S positions.

    window=0 means full causal; otherwise a query sees the last `window` keys,
    itself among them.
    """
    T, H, D = q.shape
    S, K, _ = k.shape
    q = q.view(T, K, H // K, D)
    s = torch.einsum("tkgd,skd->kgts", q.float(), k.float()) / D ** 0.5
    qpos = torch.arange(S - T, S)[:, None]
    kpos = torch.arange(S)[None, :]
    drop = kpos > qpos
    if window:
        drop = drop | (kpos <= qpos - window)
    s = s.masked_fill(drop, float("-inf"))
    extra = sinks.float().view(K, H // K, 1, 1).expand(-1, -1, T, 1)
    p = torch.softmax(torch.cat([s, extra], dim=-1), dim=-1)[..., :S]
    return torch.einsum("kgts,skd->tkgd", p, v.float()).reshape(T, H * D).to(v.dtype)


class SinkLayer:
    def __init__(self, weights: LayerWeights, head_dim: int, window: int = 0):
        self.w, self.d, self.window = weights, head_dim, window
        self.sessions: dict[str, Session] = {}

    def __call__(self, sid: str, x: Tensor) -> Tensor:
        """x (T, E): the new tokens of session sid."""
        sess = self.sessions.setdefault(sid, Session())
        T = x.shape[0]
        q = (x @ self.w.wq.T).view(T, -1, self.d)
        k, v = sess.append((x @ self.w.wk.T).view(T, -1, self.d), (x @ self.w.wv.T).view(T, -1, self.d))
        return sink_attention(q, k, v, self.w.sinks, self.window) @ self.w.wo.T

    def close(self, sid: str) -> None:
        self.sessions.pop(sid, None)
