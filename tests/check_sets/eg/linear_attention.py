"""Linear attention ("Transformers are RNNs", Katharopoulos et al. 2020)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def feature_map(x):
    return F.elu(x) + 1


class LinearAttention(nn.Module):
    """Not a softmax: weights are phi(q_i).phi(k_j) / sum_j phi(q_i).phi(k_j), phi = elu + 1.

    queries (N, L, H, D), keys (N, S, H, D), values (N, S, H, M),
    key_lengths_mask (N, S), 1 for real keys and 0 for padding. Result (N, L, H, M).
    """

    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, queries, keys, values, key_lengths_mask=None):
        Q = feature_map(queries)
        K = feature_map(keys)
        if key_lengths_mask is not None:
            K = K * key_lengths_mask[:, :, None, None].to(K.dtype)
        KV = torch.einsum("nshd,nshm->nhmd", K, values)
        Z = 1 / (torch.einsum("nlhd,nhd->nlh", Q, K.sum(dim=1)) + self.eps)
        return torch.einsum("nlhd,nhmd,nlh->nlhm", Q, KV, Z).contiguous()


class LinearAttentionLayer(nn.Module):
    """x (N, L, D) self attention around LinearAttention."""

    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.h = n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.out_projection = nn.Linear(d_model, d_model)
        self.inner_attention = LinearAttention()

    def forward(self, x, mask=None):
        N, L, _ = x.shape
        q = self.query_projection(x).view(N, L, self.h, -1)
        k = self.key_projection(x).view(N, L, self.h, -1)
        v = self.value_projection(x).view(N, L, self.h, -1)
        return self.out_projection(self.inner_attention(q, k, v, mask).view(N, L, -1))
