import torch
import torch.nn.functional as F
from torch import nn


class PrefixLMAttention(nn.Module):
    """Prefix LM: the first prefix_lengths[b] positions see each other in both directions, the rest is causal."""

    def __init__(self, n_embd: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x, prefix_lengths):
        B, T, C = x.shape
        q, k, v = [z.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for z in self.attn(x).split(C, dim=-1)]
        pos = torch.arange(T, device=x.device)
        causal = pos[None, :] <= pos[:, None]
        in_prefix = pos[None, :] < prefix_lengths[:, None]
        see = causal[None] | in_prefix[:, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=see[:, None])
        return self.proj(y.transpose(1, 2).reshape(B, T, C))
