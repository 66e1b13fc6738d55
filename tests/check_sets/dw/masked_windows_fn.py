"""Window attention with one mask per window (function form, used by our Swin re-implementation).

windows  (B * nW, N, C)  all windows of image 0 first, then all windows of image 1, ...
wqkv     (C, 3C)         columns: queries | keys | values, each head-major
wo       (C, C)
mask     (nW, N, N) additive, 0 where a pair may attend and -inf where not; window number w of
         EVERY image uses mask[w].  The diagonal is always 0.
returns  (B * nW, N, C)
"""
import math
import torch


def window_attention(windows, wqkv, wo, heads, mask=None):
    BW, N, C = windows.shape
    d = C // heads
    q, k, v = (windows @ wqkv).chunk(3, dim=-1)
    q = q.reshape(BW, N, heads, d).transpose(1, 2)
    k = k.reshape(BW, N, heads, d).transpose(1, 2)
    v = v.reshape(BW, N, heads, d).transpose(1, 2)

    logits = q @ k.mT / math.sqrt(d)                       # (B*nW, heads, N, N)
    if mask is not None:
        nW = mask.shape[0]
        images = BW // nW
        per_window = mask.repeat_interleave(images, dim=0)
        logits = logits + per_window.unsqueeze(1)

    p = torch.softmax(logits, dim=-1)
    y = (p @ v).transpose(1, 2).reshape(BW, N, C)
    return y @ wo
