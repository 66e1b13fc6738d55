"""Running BLOOM / GPT-NeoX style checkpoints in my own small model.

The checkpoint's query_key_value.weight has 3 * D rows which are ordered head by head: the rows
of head 0 are its query (d), key (d), value (d), then head 1, and so on, i.e. (H, 3, d).  I
load it unchanged with load_state_dict and take it apart in forward.  Positions are left
out of the repro (the difference is there at layer 0 without them).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CheckpointAttention(nn.Module):
    """
    hidden (B, T, D) -> (B, T, D), causal self-attention, scale 1/sqrt(d).
    past: None or (k, v) each (B, H, P, d); returned together with the output for T >= 1
    further tokens (every new token sees the past, its predecessors and itself).
    """

    def __init__(self, D: int, H: int):
        super().__init__()
        self.H = H
        self.d = D // H
        self.query_key_value = nn.Linear(D, 3 * D)
        self.dense = nn.Linear(D, D)

    def forward(self, hidden, past=None):
        B, T, D = hidden.shape
        fused = self.query_key_value(hidden)
        fused = fused.view(B, T, 3, self.H, self.d)
        q, k, v = fused.permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)
        allowed = torch.ones(T, S, dtype=torch.bool, device=hidden.device).tril(S - T)
        ctx = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        ctx = ctx.transpose(1, 2).reshape(B, T, D)
        return self.dense(ctx), (k, v)
