"""Graphormer (Ying et al. 2021), one layer, batched and padded.

    x      (B, N, D)      node features
    deg    (B, N)         int64 degree of each node, capped by the embedding size
    spd    (B, N, N)      int64 shortest-path distance, -1 for "not reachable", 0 on the diagonal
    n_real (B,)           number of real nodes; nodes >= n_real are padding

Attention is global (not restricted to neighbours): score = q.k/sqrt(d) + b_h[spd], with one
learned scalar per head and distance (and one for "not reachable"). Padded nodes are no keys,
and their rows in the result are zero.
"""
import torch
import torch.nn as nn


class GraphormerLayer(nn.Module):
    def __init__(self, D, H, max_deg=16, max_spd=5):
        super().__init__()
        self.H, self.max_deg, self.max_spd = H, max_deg, max_spd
        self.centrality = nn.Embedding(max_deg + 1, D)
        self.spatial = nn.Embedding(max_spd + 2, H)          # last row: not reachable
        self.in_proj = nn.Linear(D, 3 * D)
        self.out_proj = nn.Linear(D, D)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))

    def forward(self, x, deg, spd, n_real):
        B, N, D = x.shape
        real = torch.arange(N, device=x.device) < n_real[:, None]
        x = x + self.centrality(deg.clamp(max=self.max_deg))
        h = self.ln1(x)
        q, k, v = self.in_proj(h).chunk(3, -1)
        q, k, v = (t.reshape(B, N, self.H, D // self.H) for t in (q, k, v))
        dist = torch.where(spd < 0, self.max_spd + 1, spd.clamp(max=self.max_spd))
        s = torch.einsum("bihd,bjhd->bijh", q, k) / (D // self.H) ** 0.5
        s = s + self.spatial(dist)                            # (B, i, j, H)
        s = torch.where(real[:, None, :, None], s, torch.finfo(s.dtype).min)
        w = s.softmax(dim=2)                                  # over j, heads are last here
        o = torch.einsum("bijh,bjhd->bihd", w, v).flatten(2)
        x = x + self.out_proj(o)
        x = x + self.ffn(self.ln2(x))
        return x * real[..., None].to(x.dtype)
