"""Addressing of a Neural Turing Machine head (Graves et al. 2014, section 3.3), for the
course "memory networks".

content   wc_i = softmax_i( beta * cos(key, M_i) )
gate      wg   = g * wc + (1 - g) * w_prev
shift     ws_i = sum_j wg_j * shift_{(i - j) mod N},   shifts -1, 0, +1
sharpen   w_i  = ws_i^gamma / sum_j ws_j^gamma
read      r    = sum_i w_i M_i

memory (B, N, W), key (B, W), beta (B,) > 0, gate (B,) in (0, 1),
shift (B, 3) a distribution over (-1, 0, +1), gamma (B,) >= 1, w_prev (B, N) a distribution.
Returns r (B, W), w (B, N).
"""
import torch
import torch.nn.functional as F


def circular(wg, shift):
    back = torch.roll(wg, -1, dims=1)      # slot i takes what slot i+1 had: shift -1
    ahead = torch.roll(wg, 1, dims=1)      # shift +1
    stacked = torch.stack([back, wg, ahead], dim=2)
    return (stacked * shift[:, None, :]).sum(2)


def address(memory, key, beta, gate, shift, gamma, w_prev):
    similarity = F.cosine_similarity(memory, key[:, None, :], dim=2)
    wc = F.softmax(beta[:, None] * similarity, dim=1)
    wg = gate[:, None] * wc + (1 - gate[:, None]) * w_prev
    ws = circular(wg, shift)
    w = ws ** gamma[:, None]
    return w / w.sum(1, keepdim=True)


def ntm_read(memory, key, beta, gate, shift, gamma, w_prev):
    w = address(memory, key, beta, gate, shift, gamma, w_prev)
    return torch.bmm(w[:, None], memory)[:, 0], w
