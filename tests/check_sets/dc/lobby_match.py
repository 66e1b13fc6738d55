"""Matchmaking: players of a lobby look at each other."""
import torch


def lobby_exchange(q, k, v, may_see, heads, cap=3.0):
    """q, k, v (B, N, D); may_see (B, N, N) bool, one matrix per lobby, players always see themselves.

    Scores are divided by the root of the head size and squashed softly into (-cap, cap)
    so that no player takes all the weight. Returns (B, N, D).
    """
    B, N, D = q.shape
    d = D // heads

    def fold(t):
        return t.view(B, N, heads, d).transpose(1, 2).reshape(B * heads, N, d)

    q, k, v = fold(q), fold(k), fold(v)
    m = may_see.repeat(heads, 1, 1)
    s = torch.bmm(q, k.transpose(1, 2)) / d ** 0.5
    s = s.masked_fill(~m, float("-inf"))
    w = torch.softmax(s, dim=-1)
    y = torch.bmm(w, v)
    return y.view(B, heads, N, d).transpose(1, 2).reshape(B, N, D)
