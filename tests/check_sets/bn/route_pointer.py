import math
import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Linear(2, d)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, xy):
        return self.body(self.emb(xy))


class PointerStep(nn.Module):
    """One construction step of "Attention, learn to solve routing problems".

    A multi-head glimpse over the still open cities refines the context, then a
    single-head pointer scores the cities:  u = C * tanh(q.k / sqrt(d)), and
    the result is log p over cities.  `visited` is True for cities that are
    already in the tour; these must get probability zero.
    """

    def __init__(self, d, heads=4, clip=10.0):
        super().__init__()
        self.d, self.heads, self.clip = d, heads, clip
        self.project_nodes = nn.Linear(d, 3 * d, bias=False)   # glimpse K, glimpse V, pointer K
        self.project_ctx = nn.Linear(3 * d, d, bias=False)
        self.project_glimpse = nn.Linear(d, d, bias=False)

    def precompute(self, nodes):
        return self.project_nodes(nodes).chunk(3, dim=-1)

    def _heads(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(-3, -2)   # b h n e

    def forward(self, ctx, fixed, visited):
        gk, gv, pk = fixed
        q = self.project_ctx(ctx).unsqueeze(1)                       # b 1 d
        qh, kh, vh = self._heads(q), self._heads(gk), self._heads(gv)
        compat = qh @ kh.transpose(-1, -2) / math.sqrt(qh.size(-1))
        compat = compat.masked_fill(visited[:, None, None, :], -math.inf)
        glimpse = (compat.softmax(-1) @ vh).transpose(1, 2).flatten(2)
        q = self.project_glimpse(glimpse)
        u = (q @ pk.transpose(-1, -2)).squeeze(1) / math.sqrt(self.d)
        u = torch.tanh(u) * self.clip
        u = u.masked_fill(visited, -math.inf)
        return u.log_softmax(-1)


class RouteModel(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.enc = Encoder(d)
        self.dec = PointerStep(d)
        self.start = nn.Parameter(torch.randn(2, d) * 0.1)

    def forward(self, xy, greedy=True):
        b, n, _ = xy.shape
        nodes = self.enc(xy)
        fixed = self.dec.precompute(nodes)
        mean = nodes.mean(1)
        visited = torch.zeros(b, n, dtype=torch.bool, device=xy.device)
        first, last = self.start[0].expand(b, -1), self.start[1].expand(b, -1)
        rows = torch.arange(b, device=xy.device)
        logp, tour = 0.0, []
        for step in range(n):
            lp = self.dec(torch.cat([mean, first, last], -1), fixed, visited)
            pick = lp.argmax(-1) if greedy else torch.multinomial(lp.exp(), 1).squeeze(1)
            logp = logp + lp[rows, pick]
            visited = visited.scatter(1, pick[:, None], True)
            last = nodes[rows, pick]
            if step == 0:
                first = last
            tour.append(pick)
        return torch.stack(tour, 1), logp


def tour_length(xy, tour):
    p = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (p - p.roll(-1, 1)).norm(dim=-1).sum(1)


def reinforce_loss(model, xy):
    with torch.no_grad():
        base = tour_length(xy, model(xy, greedy=True)[0])
    tour, logp = model(xy, greedy=False)
    return ((tour_length(xy, tour) - base) * logp).mean()
