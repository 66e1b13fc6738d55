"""Mask head for a DETR-like segmenter.

Object queries are compared with the encoder feature map, one attention map per head; the maps
are the input of a small FPN that produces the instance masks.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QueryAttentionMaps(nn.Module):
    """Only the attention maps (there is no multiplication by values).

    q: (B, Nq, query_dim) decoder output
    feat: (B, hidden_dim, H, W) encoder feature map
    mask: (B, H, W) bool, True on padded pixels

    returns (B, Nq, n_heads, H, W): for each query and each head a distribution over the pixels,
    i.e. every map sums to one and is zero on padding.
    """

    def __init__(self, query_dim=32, hidden_dim=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.q_linear = nn.Linear(query_dim, hidden_dim)
        self.k_linear = nn.Linear(query_dim, hidden_dim)
        nn.init.zeros_(self.k_linear.bias)
        nn.init.zeros_(self.q_linear.bias)
        nn.init.xavier_uniform_(self.k_linear.weight)
        nn.init.xavier_uniform_(self.q_linear.weight)
        self.normalize_fact = float(hidden_dim / num_heads) ** -0.5

    def forward(self, q, feat, mask=None):
        q = self.q_linear(q)
        k = F.conv2d(feat, self.k_linear.weight[:, :, None, None], self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, self.hidden_dim // self.num_heads)
        kh = k.view(k.shape[0], self.num_heads, self.hidden_dim // self.num_heads, *k.shape[-2:])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)
        if mask is not None:
            weights = weights.masked_fill(mask[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return weights


class MaskHead(nn.Module):
    def __init__(self, dim=32, num_heads=4):
        super().__init__()
        self.maps = QueryAttentionMaps(dim, dim, num_heads)
        self.lay1 = nn.Conv2d(dim + num_heads, 16, 3, padding=1)
        self.gn1 = nn.GroupNorm(4, 16)
        self.out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, q, feat, mask=None):
        B, Nq = q.shape[:2]
        maps = self.maps(q, feat, mask).flatten(0, 1)
        x = torch.cat([feat.repeat_interleave(Nq, dim=0), maps], dim=1)
        x = F.interpolate(F.relu(self.gn1(self.lay1(x))), scale_factor=2, mode="nearest")
        return self.out(x).view(B, Nq, *x.shape[-2:])
