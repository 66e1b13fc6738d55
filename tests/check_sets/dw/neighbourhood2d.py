"""Local attention on images: every pixel looks at the k x k square around it (k odd).

q, k, v : (B, heads, d, H, W)      ->      (B, heads, d, H, W)

Taps that fall outside the image do not exist: they take no part in the softmax (it is not the
same as attending to zero padding).  Scores are divided by sqrt(d).  Optional `bias`
(heads, k*k) is added to the scaled scores, taps numbered row by row from the top left.
"""
import torch
import torch.nn.functional as F


def _patches(t, size):
    """(B, h, d, H, W) -> (B, h, d, size*size, H*W)"""
    B, h, d, H, W = t.shape
    cols = F.unfold(t.reshape(B, h * d, H, W), size, padding=size // 2)
    return cols.view(B, h, d, size * size, H * W)


def neighbourhood_attention(q, k, v, size=3, bias=None):
    if size % 2 == 0:
        raise ValueError("size must be odd")
    B, h, d, H, W = q.shape
    keys, vals = _patches(k, size), _patches(v, size)
    inside = F.unfold(torch.ones(1, 1, H, W, dtype=q.dtype, device=q.device), size,
                      padding=size // 2)                       # 1, k*k, H*W
    q = q.reshape(B, h, d, 1, H * W)
    sim = (q * keys).sum(dim=2) * d ** -0.5                    # B, h, k*k, H*W
    if bias is not None:
        sim = sim + bias[None, :, :, None]
    sim = sim.masked_fill(inside[:, None] < 0.5, float("-inf"))
    w = sim.softmax(dim=2)                                     # taps are on axis 2
    out = (w.unsqueeze(2) * vals).sum(dim=3)
    return out.view(B, h, d, H, W)
