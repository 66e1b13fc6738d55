"""Transformers are RNNs (Katharopoulos et al. 2020): causal linear attention.

o_i = phi(q_i)^T sum_{j<=i} phi(k_j) v_j^T / (phi(q_i)^T sum_{j<=i} phi(k_j)),  phi = elu + 1
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1


class CausalLinearAttention(nn.Module):
    def __init__(self, d_model=32, n_heads=4, eps=1e-6):
        super().__init__()
        self.h, self.d, self.eps = n_heads, d_model // n_heads, eps
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def _heads(self, x):
        return x.view(x.size(0), x.size(1), self.h, self.d)

    def forward(self, x, key_mask=None):
        """x [N, L, d_model]; key_mask [N, L] bool, True for real tokens"""
        q, k, v = phi(self._heads(self.to_q(x))), phi(self._heads(self.to_k(x))), self._heads(self.to_v(x))
        if key_mask is not None:
            k = k * key_mask[:, :, None, None].to(k.dtype)
        kv = torch.einsum("nlhd,nlhm->nlhdm", k, v).cumsum(dim=1)
        z = torch.einsum("nlhd,nlhd->nlh", q, k.cumsum(dim=1)) + self.eps
        o = torch.einsum("nlhd,nlhdm->nlhm", q, kv) / z.unsqueeze(-1)
        return self.out(o.reshape(x.size(0), x.size(1), -1))

    def step(self, x_t, state=None):
        """one token: x_t [N, d_model] -> y_t [N, d_model], new state"""
        N = x_t.size(0)
        q = phi(self.to_q(x_t)).view(N, self.h, self.d)
        k = phi(self.to_k(x_t)).view(N, self.h, self.d)
        v = self.to_v(x_t).view(N, self.h, self.d)
        if state is None:
            S = x_t.new_zeros(N, self.h, self.d, self.d)
            Z = x_t.new_zeros(N, self.h, self.d)
        else:
            S, Z = state
        S = S + k.unsqueeze(-1) * v.unsqueeze(-2)
        Z = Z + k
        num = torch.einsum("nhd,nhdm->nhm", q, S)
        den = torch.einsum("nhd,nhd->nh", q, Z) + self.eps
        return self.out((num / den.unsqueeze(-1)).reshape(N, -1)), (S, Z)
