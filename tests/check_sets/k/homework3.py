import torch
import torch.nn.functional as F


def self_attention(x, Wq, Wk, Wv):
    # x: (batch, seq, dim)
    q = x @ Wq
    k = x @ Wk
    v = x @ Wv
    scores = torch.bmm(q, k.transpose(1, 2)) / q.size(-1) ** 0.5
    attn = F.softmax(scores, dim=1)
    return torch.bmm(attn, v)
