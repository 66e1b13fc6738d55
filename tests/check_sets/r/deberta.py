import torch
from torch import nn


class DisentangledSelfAttention(nn.Module):
    """DeBERTa (He et al. 2021): content-to-content + content-to-position + position-to-content.

        A_ij = Qc_i . Kc_j  +  Qc_i . Kr_{d(i,j)}  +  Kc_j . Qr_{d(j,i)},    softmax(A / sqrt(3 d))

    Three terms are summed, hence sqrt(3 d).  d(i, j) = clamp(i - j + k, 0, 2k - 1).
    hidden_states: (batch, seq, dim); attention_mask: (batch, seq), nonzero for tokens.
    """

    def __init__(self, dim, num_heads=2, k=3):
        super().__init__()
        self.h, self.k = num_heads, k
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.rel_embeddings = nn.Embedding(2 * k, dim)

    def heads(self, t):
        return t.unflatten(-1, (self.h, -1)).transpose(-3, -2)

    def forward(self, hidden_states, attention_mask=None):
        n = hidden_states.shape[1]
        q, k, v = (self.heads(f(hidden_states)) for f in (self.query_proj, self.key_proj, self.value_proj))
        rel = self.rel_embeddings.weight
        kr, qr = self.heads(self.key_proj(rel)), self.heads(self.query_proj(rel))  # (h, 2k, d)

        at = torch.arange(n, device=q.device)
        delta = (at[:, None] - at[None, :] + self.k).clamp(0, 2 * self.k - 1)
        delta = delta.expand(q.shape[0], self.h, n, n)
        c2c = q @ k.mT
        c2p = (q @ kr.mT).gather(-1, delta)
        p2c = (k @ qr.mT).gather(-1, delta).mT
        a = (c2c + c2p + p2c) / (3 * q.shape[-1]) ** 0.5
        if attention_mask is not None:
            a = a.masked_fill(~attention_mask[:, None, None, :].bool(), torch.finfo(a.dtype).min)
        return (a.softmax(-1) @ v).transpose(1, 2).flatten(2)
