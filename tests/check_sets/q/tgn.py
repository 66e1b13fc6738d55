import torch
from torch import nn


class TemporalAttentionLayer(nn.Module):
    """A node looks at its latest neighbours in a temporal graph; times are encoded by cosines.

    node_feats (B, dim); neigh_feats (B, K, dim); dt (B, K), time since each interaction; neigh_mask (B, K) bool, True for empty slots.
    A node without any neighbour receives zeros from the attention.
    """

    def __init__(self, dim=6, time_dim=4, n_head=2):
        super().__init__()
        self.n_head = n_head
        self.register_buffer("freq", 10.0 ** -torch.linspace(0, 3, time_dim))
        inner = dim + time_dim
        self.w_q = nn.Linear(inner, inner, bias=False)
        self.w_k = nn.Linear(inner, inner, bias=False)
        self.w_v = nn.Linear(inner, inner, bias=False)
        self.merger = nn.Linear(inner + dim, dim)

    def time_encode(self, dt):
        return torch.cos(dt.unsqueeze(-1) * self.freq)

    def forward(self, node_feats, neigh_feats, dt, neigh_mask):
        now = self.time_encode(torch.zeros_like(dt[:, 0]))
        query = self.w_q(torch.cat([node_feats, now], dim=-1)).unflatten(-1, (self.n_head, -1))
        neigh = torch.cat([neigh_feats, self.time_encode(dt)], dim=-1)
        key = self.w_k(neigh).unflatten(-1, (self.n_head, -1))
        value = self.w_v(neigh).unflatten(-1, (self.n_head, -1))
        score = torch.einsum("bhd,bkhd->bhk", query, key) / query.shape[-1] ** 0.5
        lonely = neigh_mask.all(dim=1)
        score = score.masked_fill((neigh_mask & ~lonely[:, None])[:, None], float("-inf"))
        y = torch.einsum("bhk,bkhd->bhd", score.softmax(dim=-1), value).flatten(1)
        y = y.masked_fill(lonely[:, None], 0.0)
        return self.merger(torch.cat([y, node_feats], dim=-1))
