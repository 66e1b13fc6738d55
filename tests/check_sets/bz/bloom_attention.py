"""BLOOM 的注意力层移植 (HuggingFace modeling_bloom 精简版).

- fused QKV 的存储顺序是 (head, 3, head_dim), 与 Megatron 一致;
- ALiBi 以 slope * key_position 的形式加到分数上: 对同一个 query 来说, 它与
  -slope * (i - j) 只差一个常数, softmax 之后结果相同;
- key_position 由 attention_mask 的 cumsum 得到, 所以左侧 padding 不影响位置;
- head 数不是 2 的幂时, 斜率用论文作者给出的插值方案.
"""
import math

import torch
import torch.nn as nn


def get_slopes(n_head):
    closest = 2 ** math.floor(math.log2(n_head))
    base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
    slopes = [base ** i for i in range(1, closest + 1)]
    if closest != n_head:
        extra_base = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
        n_rest = min(closest, n_head - closest)
        slopes += [extra_base ** i for i in range(1, 2 * n_rest + 1, 2)]
    return torch.tensor(slopes)


def build_alibi(attention_mask, n_head, dtype):
    # attention_mask: [B, S], 1 = token, 0 = padding  ->  [B * H, 1, S]
    pos = ((attention_mask.cumsum(-1) - 1) * attention_mask).to(dtype)
    alibi = get_slopes(n_head).to(dtype)[None, :, None] * pos[:, None, :]
    return alibi.reshape(-1, 1, attention_mask.shape[-1])


class BloomAttention(nn.Module):
    def __init__(self, hidden_size=48, n_head=6):
        super().__init__()
        self.num_heads, self.head_dim = n_head, hidden_size // n_head
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, residual, attention_mask):
        B, S, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(B, S, self.num_heads, 3, self.head_dim)
        q, k, v = fused.unbind(dim=3)
        q = q.transpose(1, 2).reshape(B * self.num_heads, S, self.head_dim)
        k = k.permute(0, 2, 3, 1).reshape(B * self.num_heads, self.head_dim, S)
        v = v.transpose(1, 2).reshape(B * self.num_heads, S, self.head_dim)

        alibi = build_alibi(attention_mask, self.num_heads, q.dtype)
        scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(B, self.num_heads, S, S)

        # True = 不可见
        future = torch.ones(S, S, dtype=torch.bool, device=q.device).triu(1)
        blocked = future | (attention_mask[:, None, None, :] == 0)
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, dim=-1)

        ctx = probs.view(B * self.num_heads, S, S).bmm(v)
        ctx = ctx.view(B, self.num_heads, S, self.head_dim).transpose(1, 2).flatten(2)
        return residual + self.dense(ctx)
