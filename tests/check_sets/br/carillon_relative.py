"""Carillon improvisation: relative self-attention with the memory-saving skew.

Events of a carillon piece (bell, pedal, pause) are the tokens.  Before the division by
sqrt(d) the score of query i and key j <= i gets q_i . E[j - i] added, with one learned vector
for every distance 0 .. max_len - 1 behind the query; the [L, L, d] tensor is avoided by
skewing q E^T.
"""
import torch
import torch.nn.functional as F
from torch import nn


class CarillonRelativeAttention(nn.Module):
    """Causal self-attention with relative position vectors.

    ``er`` holds the vectors with the farthest distance first: row max_len - 1 is distance 0
    (the event itself), row max_len - 2 is one event back, and so on.
    """

    def __init__(self, d_model, num_heads, max_len=512, dropout=0.1):
        super().__init__()
        d_head, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len = max_len
        self.num_heads = num_heads
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.er = nn.Parameter(torch.randn(max_len, d_head))
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, _ = x.shape
        if n > self.max_len:
            raise ValueError("sequence longer than the model was made for")
        k = self.key(x).reshape(b, n, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(b, n, self.num_heads, -1).transpose(1, 2)
        q = self.query(x).reshape(b, n, self.num_heads, -1).transpose(1, 2)

        rel = self.er[self.max_len - n:]                     # [n, d_head]
        s_rel = self.skew(q @ rel.t())
        attn = (q @ k + s_rel) / q.size(-1) ** 0.5
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        attn = attn.masked_fill(future, float("-inf"))
        attn = self.dropout(F.softmax(attn, dim=-1))
        y = (attn @ v).transpose(1, 2).reshape(b, n, -1)
        return self.out(y)

    @staticmethod
    def skew(qe):
        """[b, h, n, n] by (query, row of er) -> [b, h, n, n] by (query, key)."""
        b, h, n, m = qe.shape
        padded = F.pad(qe, (1, 0))
        return padded.reshape(b, h, m + 1, n)[:, :, :-1]


class Bourdon(nn.Module):
    """One transformer block; named after the lowest bell."""

    def __init__(self, d_model, num_heads, max_len):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.att = CarillonRelativeAttention(d_model, num_heads, max_len)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.ff(self.ln2(x))


class Improviser(nn.Module):
    BELLS = 47
    PAUSES = 16

    def __init__(self, d_model=64, num_heads=4, depth=2, max_len=128):
        super().__init__()
        self.max_len = max_len
        self.emb = nn.Embedding(2 * self.BELLS + self.PAUSES, d_model)
        self.blocks = nn.Sequential(*[Bourdon(d_model, num_heads, max_len) for _ in range(depth)])
        self.head = nn.Linear(d_model, self.emb.num_embeddings)

    def forward(self, events):
        return self.head(self.blocks(self.emb(events)))

    @torch.no_grad()
    def continue_piece(self, events, n, temperature=1.0, generator=None):
        self.eval()
        for _ in range(n):
            p = (self(events[:, -self.max_len:])[:, -1] / temperature).softmax(-1)
            events = torch.cat([events, torch.multinomial(p, 1, generator=generator)], 1)
        return events

    @classmethod
    def spell(cls, event):
        if event < cls.BELLS:
            return f"baton {event + 1}"
        if event < 2 * cls.BELLS:
            return f"pedal {event - cls.BELLS + 1}"
        return f"pause {event - 2 * cls.BELLS + 1}/16"


if __name__ == "__main__":
    g = torch.Generator().manual_seed(4)
    piece = Improviser().continue_piece(torch.tensor([[3, 50, 95]]), 6, generator=g)
    print([Improviser.spell(int(e)) for e in piece[0]])
