import torch


def fold(x, g):
    """(B, L, g*d) -> (B*g, L, d), the heads of one sample side by side"""
    B, L, D = x.shape
    return x.view(B, L, g, D // g).transpose(1, 2).reshape(B * g, L, D // g)


def unfold(x, g):
    n, L, d = x.shape
    return x.view(n // g, g, L, d).transpose(1, 2).reshape(n // g, L, g * d)


def match_pairs(left, right, banned, mats, g=3):
    """Items of the left offer read items of the right offer.

    left (B, T, D), right (B, S, D); banned (B, T, S) bool, True = this pair may not be compared
    (each left item keeps at least one). mats: four (D, D) matrices. -> (B, T, D)
    """
    A, C, E, O = mats
    x, y, z = fold(left @ A, g), fold(right @ C, g), fold(right @ E, g)
    e = torch.baddbmm(x.new_zeros(1, 1, 1), x, y.transpose(1, 2), alpha=x.size(2) ** -0.5)
    stop = banned.repeat(g, 1, 1)
    e = e.masked_fill(stop, float("-inf"))
    return unfold(torch.bmm(e.softmax(2), z), g) @ O
