"""Transformers are RNNs (Katharopoulos et al., 2020) - causal linear attention.

Two equivalent ways to run the same layer:

    parallel : layer(x)                 whole sequence, cumulative sums
    recurrent: layer.step(x_t, state)   one token, constant memory

The kernel is phi(x) = elu(x) + 1, so no exponential and no 1/sqrt(d) are involved:

    y_i = phi(q_i)^T S_i / (phi(q_i)^T z_i + eps),
    S_i = sum_{j<=i} phi(k_j) v_j^T,  z_i = sum_{j<=i} phi(k_j)

Praca domowa z kursu "Efektywne transformery", zadanie 3.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalLinearAttention(nn.Module):
    def __init__(self, d_model, n_heads, eps=1e-6):
        super().__init__()
        self.n_heads = n_heads
        self.eps = eps
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def _split(self, x):
        # (..., D) -> trzy tensory (..., H, E)
        q, k, v = self.in_proj(x).chunk(3, -1)
        shape = x.shape[:-1] + (self.n_heads, -1)
        return F.elu(q.reshape(shape)) + 1, F.elu(k.reshape(shape)) + 1, v.reshape(shape)

    def forward(self, x):
        q, k, v = self._split(x)                                     # (B, L, H, E)
        outer = torch.einsum("blhe,blhm->blhem", k, v)
        S = outer.cumsum(dim=1)
        z = k.cumsum(dim=1)
        num = torch.einsum("blhe,blhem->blhm", q, S)
        den = torch.einsum("blhe,blhe->blh", q, z) + self.eps
        return self.out_proj((num / den.unsqueeze(-1)).flatten(2))

    def init_state(self, batch, like):
        e = self.out_proj.in_features // self.n_heads
        return like.new_zeros(batch, self.n_heads, e, e), like.new_zeros(batch, self.n_heads, e)

    def step(self, x_t, state):
        """x_t: (B, D). Zwraca wyjście (B, D) oraz nowy stan (S, z)."""
        S, z = state
        q, k, v = self._split(x_t)
        S = S + k.unsqueeze(-1) * v.unsqueeze(-2)
        z = z + k
        num = (q.unsqueeze(-2) @ S).squeeze(-2)
        den = (q * z).sum(-1, keepdim=True) + self.eps
        return self.out_proj((num / den).flatten(1)), (S, z)


if __name__ == "__main__":
    layer = CausalLinearAttention(16, 4)
    x = torch.randn(2, 6, 16)
    state, ys = layer.init_state(2, x), []
    for t in range(6):
        y, state = layer.step(x[:, t], state)
        ys.append(y)
    print((layer(x) - torch.stack(ys, 1)).abs().max())
