"""BLOOM-like attention: ALiBi, fused QKV interleaved per head, padded batches.

The fused projection is laid out [n_head, 3, head_dim], as in Megatron checkpoints.
The bias is slope * key_position; that differs from -slope * (i - j) by a constant of
the row only, so softmax gives the same.  Positions are counted over real
tokens (attention_mask, 1 = token, 0 = padding).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_slopes(n_head):
    p = 2 ** math.floor(math.log2(n_head))
    base = 2 ** (-(2 ** -(math.log2(p) - 3)))
    slopes = [base ** i for i in range(1, p + 1)]
    if p != n_head:
        extra = 2 ** (-(2 ** -(math.log2(2 * p) - 3)))
        rest = n_head - p
        slopes += [extra ** i for i in range(1, 2 * rest + 1, 2)]
    return torch.tensor(slopes)


def build_alibi(attention_mask, n_head):
    place = (attention_mask.cumsum(-1) - 1) * attention_mask
    slopes = alibi_slopes(n_head).to(attention_mask.device)
    return slopes[None, :, None, None] * place[:, None, None, :]


class BloomAttention(nn.Module):
    def __init__(self, hidden=48, n_head=6, attention_dropout=0.0):
        super().__init__()
        self.n_head = n_head
        self.head_dim = hidden // n_head
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.attention_dropout = nn.Dropout(attention_dropout)

    def forward(self, hidden_states, residual, attention_mask, layer_past=None):
        b, q_len, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states)
        fused = fused.view(b, q_len, self.n_head, 3, self.head_dim)
        q, k, v = (t.transpose(1, 2) for t in fused.unbind(3))
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=2)
            v = torch.cat((layer_past[1], v), dim=2)
        kv_len = k.size(2)

        scores = torch.matmul(q, k.transpose(-1, -2)) * self.inv_norm_factor
        scores = scores + build_alibi(attention_mask, self.n_head).to(scores.dtype)

        rows = torch.arange(kv_len - q_len, kv_len, device=q.device)[:, None]
        cols = torch.arange(kv_len, device=q.device)[None, :]
        hidden_from = (cols > rows)[None, None] | (attention_mask == 0)[:, None, None, :]
        scores = scores.float().masked_fill(hidden_from, torch.finfo(torch.float32).min)
        probs = F.softmax(scores, dim=-1).to(v.dtype)
        probs = self.attention_dropout(probs)

        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(b, q_len, -1)
        return residual + self.dense(ctx), (k, v)
