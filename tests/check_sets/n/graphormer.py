import torch
from torch import nn


class GraphormerAttention(nn.Module):
    """Self-attention among the nodes of a graph with a learned bias for each shortest-path distance.

    x (B, N, dim); spd (B, N, N) int, distances in hops; node_mask (B, N) bool, True for real nodes.
    """

    def __init__(self, dim, num_heads, max_dist=8):
        super().__init__()
        self.num_heads = num_heads
        self.spatial_bias = nn.Embedding(max_dist + 1, num_heads)
        self.max_dist = max_dist
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, spd, node_mask):
        B, N, D = x.shape
        dh = D // self.num_heads
        q = self.wq(x).view(B, N, self.num_heads, dh)
        k = self.wk(x).view(B, N, self.num_heads, dh)
        v = self.wv(x).view(B, N, self.num_heads, dh)
        logits = torch.einsum("bihd,bjhd->bijh", q, k) / dh ** 0.5
        logits = logits + self.spatial_bias(spd.clamp(0, self.max_dist))
        logits = logits.masked_fill(~node_mask[:, None, :, None], torch.finfo(logits.dtype).min)
        attn = logits.softmax(dim=2)
        return self.out(torch.einsum("bijh,bjhd->bihd", attn, v).reshape(B, N, D))
