"""Linear attention, "Transformers are RNNs" (Katharopoulos et al., 2020).

    V'_i = phi(Q_i)^T sum_{j<=i} phi(K_j) V_j^T / phi(Q_i)^T sum_{j<=i} phi(K_j)

with phi(x) = elu(x) + 1. No softmax and no sqrt(d) in this form.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalLinearAttention(nn.Module):
    def __init__(self, dim, num_heads=4, eps=1e-6):
        super().__init__()
        self.num_heads = num_heads
        self.eps = eps
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    @staticmethod
    def phi(x):
        return F.elu(x) + 1

    def forward(self, x):
        """x: (batch, length, dim) -> (batch, length, dim), strictly left to right."""
        n, l, c = x.shape
        shape = (n, l, self.num_heads, c // self.num_heads)
        Q = self.phi(self.query(x).view(shape))
        K = self.phi(self.key(x).view(shape))
        V = self.value(x).view(shape)

        # prefix sums over time; memory is O(l d^2) which is fine for short texts
        KV = torch.cumsum(torch.einsum("nlhd,nlhm->nlhdm", K, V), dim=1)
        Z = torch.einsum("nlhd,nlhd->nlh", Q, torch.cumsum(K, dim=1))
        num = torch.einsum("nlhd,nlhdm->nlhm", Q, KV)
        y = num / (Z.unsqueeze(-1) + self.eps)
        return self.out(y.reshape(n, l, c))

    def step(self, x_t, state=None):
        """Recurrent form for generation: x_t (batch, dim), state (S, z)."""
        n, c = x_t.shape
        shape = (n, self.num_heads, c // self.num_heads)
        q = self.phi(self.query(x_t).view(shape))
        k = self.phi(self.key(x_t).view(shape))
        v = self.value(x_t).view(shape)
        kv = torch.einsum("nhd,nhm->nhdm", k, v)
        S, z = (kv, k) if state is None else (state[0] + kv, state[1] + k)
        y = torch.einsum("nhd,nhdm->nhm", q, S) / ((q * z).sum(-1, keepdim=True) + self.eps)
        return self.out(y.reshape(n, c)), (S, z)
