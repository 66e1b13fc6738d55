"""Linear attention after Katharopoulos et al. 2020 ("Transformers are RNNs").

There is no softmax and no 1/sqrt(d) here on purpose: weights are phi(q).phi(k) / sum_j phi(q).phi(k_j)
with phi = elu + 1. Layout [N, L, H, E]. lengths_mask: float/bool [N, S], 1 = valid key.
"""
import torch
from torch import nn


def elu_feature_map(x):
    return torch.nn.functional.elu(x) + 1


class LinearAttention(nn.Module):
    def __init__(self, eps=1e-6, causal=False):
        super().__init__()
        self.eps = eps
        self.causal = causal

    def forward(self, queries, keys, values, lengths_mask=None):
        Q = elu_feature_map(queries)
        K = elu_feature_map(keys)
        if lengths_mask is not None:
            K = K * lengths_mask[:, :, None, None].to(K.dtype)
        if self.causal:
            KV = torch.einsum("nshd,nshm->nshmd", K, values).cumsum(1)
            Z = 1 / (torch.einsum("nlhd,nlhd->nlh", Q, K.cumsum(1)) + self.eps)
            V = torch.einsum("nlhd,nlhmd,nlh->nlhm", Q, KV, Z)
        else:
            KV = torch.einsum("nshd,nshm->nhmd", K, values)
            Z = 1 / (torch.einsum("nlhd,nhd->nlh", Q, K.sum(dim=1)) + self.eps)
            V = torch.einsum("nlhd,nhmd,nlh->nlhm", Q, KV, Z)
        return V.contiguous()


class RecurrentState:
    """one-step form of the causal case, for sampling"""

    def __init__(self, N, H, E, M, like):
        self.s = like.new_zeros(N, H, M, E)
        self.z = like.new_zeros(N, H, E)

    def step(self, q, k, v, eps=1e-6):
        q, k = elu_feature_map(q), elu_feature_map(k)
        self.s = self.s + torch.einsum("nhd,nhm->nhmd", k, v)
        self.z = self.z + k
        den = torch.einsum("nhd,nhd->nh", q, self.z) + eps
        return torch.einsum("nhd,nhmd->nhm", q, self.s) / den[..., None]


class Block(nn.Module):
    def __init__(self, d, h, causal):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.inner = LinearAttention(causal=causal)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, lengths_mask=None):
        N, L, D = x.shape
        y = self.n1(x)
        sp = lambda t: t.view(N, L, self.h, -1)
        y = self.inner(sp(self.q(y)), sp(self.k(y)), sp(self.v(y)), lengths_mask)
        x = x + self.o(y.view(N, L, D))
        return x + self.ff(self.n2(x))


class PixelModel(nn.Module):
    def __init__(self, levels=16, d=64, h=4, depth=2, max_len=784):
        super().__init__()
        self.e = nn.Embedding(levels, d)
        self.p = nn.Parameter(torch.randn(max_len, d) * 0.02)
        self.b = nn.ModuleList(Block(d, h, True) for _ in range(depth))
        self.head = nn.Linear(d, levels)

    def forward(self, pix):
        x = self.e(pix) + self.p[: pix.size(1)]
        for b in self.b:
            x = b(x)
        return self.head(x)
