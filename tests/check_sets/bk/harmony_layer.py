"""
Harmony inference: the attention half of one decoder layer.

Every second layer is local (sliding window), the others see the whole past.
Each query head owns one learned *sink* logit.  The sink takes part in the
normalisation of the row but has no value vector, so a head may decide to read
(almost) nothing: the visible weights of a row then add up to less than one.

Shapes in this file use   T tokens, K kv heads, G query heads per kv head, D dim.
"""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LayerSpec:
    hidden: int = 96
    head_dim: int = 16
    n_query_heads: int = 6
    n_kv_heads: int = 2
    sliding_window: int = 0      # 0 = global; W = the W latest tokens, self included
    norm_eps: float = 1e-5


class RMSNorm(nn.Module):
    def __init__(self, n: int, eps: float):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        t = x.float()
        t = t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + self.eps)
        return (t * self.scale).to(x.dtype)


def sdpa(Q: Tensor, K: Tensor, V: Tensor, S: Tensor, sm_scale: float, window: int) -> Tensor:
    # Q [T, K, G, D]   K, V [T, K, D]   S [K * G]
    T, n_kv, G, D = Q.shape
    K = K[:, :, None, :].expand(-1, -1, G, -1)
    V = V[:, :, None, :].expand(-1, -1, G, -1)
    S = S.reshape(n_kv, G, 1, 1).expand(-1, -1, T, -1)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K) * sm_scale
    banned = torch.triu(QK.new_full((T, T), -float("inf")), diagonal=1)
    if window > 0:
        banned += torch.tril(banned.new_full((T, T), -float("inf")), diagonal=-window)
    QK = QK + banned
    W = torch.softmax(torch.cat([QK, S], dim=-1).float(), dim=-1).to(V.dtype)
    W = W[..., :-1]                       # the sink has no value
    return torch.einsum("hmqk,khmd->qhmd", W, V).reshape(T, -1)


class SinkAttention(nn.Module):
    """x [T, hidden] -> x + attention(norm(x)); one sequence, causal."""

    def __init__(self, spec: LayerSpec, layer_idx: int = 0):
        super().__init__()
        self.spec = spec
        self.window = spec.sliding_window if layer_idx % 2 == 0 else 0
        d = spec.head_dim
        self.norm = RMSNorm(spec.hidden, spec.norm_eps)
        self.qkv = nn.Linear(spec.hidden, d * (spec.n_query_heads + 2 * spec.n_kv_heads))
        self.out = nn.Linear(d * spec.n_query_heads, spec.hidden)
        self.sinks = nn.Parameter(torch.randn(spec.n_query_heads))
        self.sm_scale = d ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        s = self.spec
        nq, nk, d = s.n_query_heads, s.n_kv_heads, s.head_dim
        q, k, v = self.qkv(self.norm(x)).split([nq * d, nk * d, nk * d], dim=-1)
        q = q.view(-1, nk, nq // nk, d)
        k, v = k.view(-1, nk, d), v.view(-1, nk, d)
        return x + self.out(sdpa(q, k, v, self.sinks, self.sm_scale, self.window))


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = SinkAttention(LayerSpec(sliding_window=4))
    print(layer(torch.randn(9, 96)).shape)
