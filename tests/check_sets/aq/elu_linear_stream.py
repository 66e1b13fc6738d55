"""Causal linear attention for the streaming event classifier (Katharopoulos et al.)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


class StreamLinearAttention(nn.Module):
    """y_i = phi(q_i) . sum_{j<=i} phi(k_j) v_j^T  /  phi(q_i) . sum_{j<=i} phi(k_j)

    x [B, L, C]; keep [B, L] bool, True = real event. The state (S, z) that
    forward returns continues the stream with the next chunk.
    """

    def __init__(self, dim, heads, eps=1e-6):
        super().__init__()
        self.h, self.d, self.eps = heads, dim // heads, eps
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def _heads(self, t):
        return t.unflatten(-1, (self.h, self.d)).transpose(1, 2)

    def forward(self, x, keep=None, state=None):
        q, k, v = phi(self._heads(self.to_q(x))), phi(self._heads(self.to_k(x))), self._heads(self.to_v(x))
        if keep is not None:
            k = k * keep[:, None, :, None].to(k.dtype)
        S = torch.einsum("bhld,bhle->bhlde", k, v).cumsum(2)
        z = k.cumsum(2)
        if state is not None:
            S = S + state[0][:, :, None]
            z = z + state[1][:, :, None]
        num = torch.einsum("bhld,bhlde->bhle", q, S)
        den = torch.einsum("bhld,bhld->bhl", q, z).clamp_min(self.eps)
        y = (num / den[..., None]).transpose(1, 2).flatten(2)
        return self.to_out(y), (S[:, :, -1], z[:, :, -1])


class EventClassifier(nn.Module):
    def __init__(self, n_events, dim=48, heads=4, layers=2, classes=5):
        super().__init__()
        self.emb = nn.Embedding(n_events, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.att = nn.ModuleList(StreamLinearAttention(dim, heads) for _ in range(layers))
        self.cls = nn.Linear(dim, classes)

    def forward(self, events, states=None):
        x = self.emb(events)
        new = []
        for i, (n, a) in enumerate(zip(self.norms, self.att)):
            y, st = a(n(x), state=None if states is None else states[i])
            x = x + y
            new.append(st)
        return self.cls(x), new
