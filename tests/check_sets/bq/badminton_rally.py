"""Next-stroke model for badminton rallies (ShuttleSet style annotations).

A rally is generated stroke by stroke, so the decoder keeps (k, v) of the strokes
already played. Running it in one go or in pieces gives the same hidden states.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

STROKES = ("serve", "clear", "drop", "smash", "net", "lob", "drive", "push", "block", "lift")
COURT = (6.10, 13.40)       # metres


def rotary(pos, d, base=5000.):
    f = torch.outer(pos.float(), base ** (-torch.arange(0, d, 2).float() / d))
    f = torch.cat([f, f], -1)
    return f.cos(), f.sin()


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class RallyAttention(nn.Module):
    """
    Causal self-attention with rotary positions (half-split).

    past: None or (k, v), each [B, heads, T_past, d], with k already rotated.
    Returns (y [B, T, dim], (k, v)); hand the pair back on the next call.
    """

    def __init__(self, dim=48, heads=3):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past=None):
        B, T, dim = x.shape
        q, k, v = self.in_proj(x).view(B, T, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)

        seen = past[0].shape[1] if past is not None else 0
        cos, sin = rotary(torch.arange(seen, seen + T, device=x.device), self.d)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)

        S = k.shape[2]
        allowed = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, dim)), (k, v)


class RallyLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.a, self.b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = RallyAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x, past=None):
        y, past = self.att(self.a(x), past)
        x = x + y
        return x + self.mlp(self.b(x)), past


class RallyDecoder(nn.Module):
    def __init__(self, players=60, dim=48, heads=3, layers=2):
        super().__init__()
        self.stroke = nn.Embedding(len(STROKES), dim)
        self.player = nn.Embedding(players, dim)
        self.landing = nn.Linear(2, dim)
        self.layers = nn.ModuleList([RallyLayer(dim, heads) for _ in range(layers)])
        self.what = nn.Linear(dim, len(STROKES))
        self.where = nn.Linear(dim, 2)

    def forward(self, stroke, player, xy, past=None):
        scale = xy.new_tensor(COURT)
        h = self.stroke(stroke) + self.player(player) + self.landing(xy / scale)
        past = past or [None] * len(self.layers)
        new = []
        for layer, p in zip(self.layers, past):
            h, p = layer(h, p)
            new.append(p)
        return self.what(h), torch.sigmoid(self.where(h)) * scale, new

    @torch.no_grad()
    def imagine(self, stroke, player, xy, n):
        """continues the rally by n strokes; players alternate"""
        what, where, past = self(stroke, player, xy)
        played = []
        for _ in range(n):
            stroke, xy = what[:, -1:].argmax(-1), where[:, -1:]
            player = player.flip(1)[:, -1:] if player.size(1) > 1 else player
            played.append(stroke)
            what, where, past = self(stroke, player, xy, past)
        return torch.cat(played, 1)
