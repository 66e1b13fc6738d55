"""Window attention of Swin-T (inference in numpy)."""
import numpy as np


def relative_index(wh, ww):
    """Index of the bias-table row for each pair of positions inside a wh x ww window."""
    yx = np.stack(np.meshgrid(np.arange(wh), np.arange(ww), indexing="ij")).reshape(2, -1)
    rel = yx[:, :, None] - yx[:, None, :]
    rel = rel + np.array([wh - 1, ww - 1])[:, None, None]
    return rel[0] * (ww - 1) + rel[1]


def window_attention(x, table, Wqkv, bqkv, Wo, bo, window=(4, 4)):
    """
    x      (B, H, W, C), H and W divisible by the window
    table  ((2*wh-1)*(2*ww-1), heads): one learned bias for every 2-D offset between two tokens
    Wqkv   (C, 3*C) in the order q | k | v, each split into heads
    returns (B, H, W, C)
    """
    B, H, W, C = x.shape
    wh, ww = window
    heads = table.shape[1]
    d = C // heads
    t = x.reshape(B, H // wh, wh, W // ww, ww, C).transpose(0, 1, 3, 2, 4, 5).reshape(-1, wh * ww, C)
    qkv = (t @ Wqkv + bqkv).reshape(len(t), wh * ww, 3, heads, d).transpose(2, 0, 3, 1, 4)
    q, k, v = qkv
    s = np.matmul(q / np.sqrt(d), k.swapaxes(-1, -2))
    s = s + table[relative_index(wh, ww)].transpose(2, 0, 1)
    s = np.exp(s - s.max(-1, keepdims=True))
    s = s / s.sum(-1, keepdims=True)
    y = np.matmul(s, v).swapaxes(1, 2).reshape(len(t), wh * ww, C) @ Wo + bo
    y = y.reshape(B, H // wh, W // ww, wh, ww, C).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(B, H, W, C)
