"""Stroke-phase labelling for rowing crews (four force curves, one boat).

Heads are folded into the batch axis the old way: the projections are cut along the channels and
stacked on the batch axis.  ``idle`` marks samples at which the boat was not rowed; nobody may look
at them.  The second return value are the attention weights (each row sums to one), which the
coach's viewer draws.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

SEATS = ("bow", "two", "three", "stroke")
PHASES = ("catch", "drive", "finish", "recovery")


class FoldedAttention(nn.Module):
    def __init__(self, d, heads=4, p=0.1):
        super().__init__()
        assert d % heads == 0
        self.heads = heads
        self.Q, self.K, self.V = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.O = nn.Linear(d, d)
        self.drop = nn.Dropout(p)

    def fold(self, t):
        return torch.cat(t.chunk(self.heads, dim=-1), dim=0)

    def unfold(self, t):
        return torch.cat(t.chunk(self.heads, dim=0), dim=-1)

    def forward(self, query, memory, idle=None):
        """query [B, M, d]; memory [B, N, d]; idle [B, N] bool
        -> [B, M, d], [B, heads, M, N]"""
        B, M, d = query.shape
        q, k, v = self.fold(self.Q(query)), self.fold(self.K(memory)), self.fold(self.V(memory))
        a = torch.bmm(q, k.transpose(1, 2)) / (d // self.heads) ** 0.5
        if idle is not None:
            block = idle.repeat_interleave(self.heads, dim=0)
            a = a.masked_fill(block.unsqueeze(1), float("-inf"))
        a = F.softmax(a, dim=-1)
        a = self.drop(a)
        y = self.O(self.unfold(torch.bmm(a, v)))
        return y, a.view(self.heads, B, M, -1).transpose(0, 1)


class CrewTagger(nn.Module):
    """Every seat's curve asks the boat's acceleration curve."""

    def __init__(self, d=32, heads=4, p=0.1):
        super().__init__()
        self.seat_in = nn.Conv1d(1, d, 5, padding=2)
        self.boat_in = nn.Conv1d(3, d, 5, padding=2)
        self.seat = nn.Embedding(len(SEATS), d)
        self.self_att = FoldedAttention(d, heads, p)
        self.boat_att = FoldedAttention(d, heads, p)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tag = nn.Linear(d, len(PHASES))

    def forward(self, force, boat, idle=None):
        """force [B, 4, T], boat [B, 3, T], idle [B, T]"""
        B, S, T = force.shape
        b = self.boat_in(boat).transpose(1, 2)
        tags, drawn = [], {}
        for s, name in enumerate(SEATS):
            x = self.seat_in(force[:, s:s + 1]).transpose(1, 2) + self.seat.weight[s]
            y, _ = self.self_att(x, x, idle)
            x = self.n1(x + y)
            y, w = self.boat_att(x, b, idle)
            x = self.n2(x + y)
            tags.append(self.tag(x))
            drawn[name] = w
        return torch.stack(tags, 1), drawn


if __name__ == "__main__":
    torch.manual_seed(4)
    idle = torch.zeros(3, 25, dtype=torch.bool)
    idle[0, 20:] = True
    idle[2, :4] = True
    tags, drawn = CrewTagger()(torch.randn(3, 4, 25), torch.randn(3, 3, 25), idle)
    print(tags.shape, drawn["stroke"].shape)
