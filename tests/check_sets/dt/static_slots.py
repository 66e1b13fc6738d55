"""Static (pre-allocated) KV cache so that torch.compile sees fixed shapes.

StaticAttention(D, heads, max_len).forward(x, start)
    x     (B, L, D)  the next L tokens of each sequence
    start int        position of x[:, 0]; slots 0..start-1 have been filled by earlier calls
    returns (B, L, D)

Token at position p attends to positions 0..p, itself included, never to a later one and never
to a slot that has not been written. The full buffer of max_len slots takes part in the
matmul every time; the mask takes care of the rest.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StaticAttention(nn.Module):
    def __init__(self, D, heads, max_len=64, max_batch=8):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.wqkv = nn.Linear(D, 3 * D, bias=False)
        self.wo = nn.Linear(D, D, bias=False)
        buf = torch.zeros(max_batch, heads, max_len, self.d)
        self.register_buffer("k_slots", buf, persistent=False)
        self.register_buffer("v_slots", buf.clone(), persistent=False)

    def clear(self):
        self.k_slots.zero_()
        self.v_slots.zero_()

    @torch.no_grad()
    def forward(self, x, start):
        B, L, D = x.shape
        q, k, v = self.wqkv(x).view(B, L, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        self.k_slots[:B, :, start:start + L] = k
        self.v_slots[:B, :, start:start + L] = v
        query_pos = torch.arange(start + 1, start + L + 1, device=x.device)
        slot_pos = torch.arange(self.k_slots.size(2), device=x.device)
        keep = slot_pos[None, :] <= query_pos[:, None]
        y = F.scaled_dot_product_attention(q, self.k_slots[:B], self.v_slots[:B], attn_mask=keep)
        return self.wo(y.transpose(1, 2).reshape(B, L, D))
