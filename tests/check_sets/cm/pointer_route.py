"""Attention model for routing (Kool et al., 2019): greedy tour construction."""
import torch
import torch.nn as nn


class TourDecoder(nn.Module):
    """coords (B, N, 2) -> (tour (B, N) node indices, log_p (B,)).

    At each step a glimpse (multi-head attention over the unvisited nodes) makes the query of a
    single-head pointer; its logits are clipped to C * tanh(.) and visited nodes are barred
    in both places.
    """

    def __init__(self, dim=16, heads=2, clip=10.0):
        super().__init__()
        self.heads, self.d, self.clip = heads, dim // heads, clip
        self.embed = nn.Linear(2, dim)
        self.encoder = nn.TransformerEncoderLayer(dim, heads, 32, dropout=0.0, batch_first=True)
        self.start = nn.Parameter(torch.randn(2 * dim) * 0.3)
        self.w_ctx = nn.Linear(3 * dim, dim, bias=False)
        self.w_node = nn.Linear(dim, 3 * dim, bias=False)
        self.w_glimpse = nn.Linear(dim, dim, bias=False)

    def forward(self, coords):
        B, N, _ = coords.shape
        h = self.encoder(self.embed(coords))
        gk, gv, pk = self.w_node(h).chunk(3, dim=-1)
        gk = gk.view(B, N, self.heads, self.d)
        gv = gv.view(B, N, self.heads, self.d)
        graph = h.mean(1)
        rows = torch.arange(B, device=h.device)
        visited = torch.zeros(B, N, dtype=torch.bool, device=h.device)
        first_last = self.start.expand(B, -1)
        tour, log_p = [], 0.0
        for step in range(N):
            q = self.w_ctx(torch.cat((graph, first_last), dim=-1)).view(B, self.heads, self.d)
            u = torch.einsum("bhd,bnhd->bhn", q, gk) / self.d ** 0.5
            u = u.masked_fill(visited[:, None], float("-inf"))
            g = torch.einsum("bhn,bnhd->bhd", u.softmax(-1), gv).flatten(1)
            g = self.w_glimpse(g)
            logits = self.clip * torch.tanh(torch.einsum("bd,bnd->bn", g, pk) / g.shape[-1] ** 0.5)
            lp = logits.masked_fill(visited, float("-inf")).log_softmax(-1)
            node = lp.argmax(-1)
            log_p = log_p + lp[rows, node]
            visited = visited.scatter(1, node[:, None], True)
            tour.append(node)
            first_last = torch.cat((h[rows, tour[0]], h[rows, node]), dim=-1)
        return torch.stack(tour, 1), log_p
