import torch
import torch.nn.functional as F


def track_attention(x, wq, wk, wv, wo):
    """Single-head scaled dot-product self-attention over the tracks of a playlist.

    x (B, T, D); wq, wk, wv (D, d); wo (d, D) -> (B, T, D), weights (B, T, T) with
    weights[b, i, j] = how much track i takes from track j.
    """
    q = x @ wq
    k = x @ wk
    v = x @ wv
    scores = torch.bmm(q, k.transpose(1, 2)) / (q.size(-1) ** 0.5)
    weights = F.softmax(scores, dim=1)
    out = torch.bmm(weights, v)
    return out @ wo, weights


def playlist_embedding(x, params):
    """Mean over the attended tracks, (B, D)."""
    y, _ = track_attention(x, *params)
    return y.mean(dim=1)
