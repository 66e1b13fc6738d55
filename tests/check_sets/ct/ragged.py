"""Self-attention on packed, variable-length clinical notes (no padding)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedAttention(nn.Module):
    """
    x        : (total, dim)   tokens of all notes one after another
    offsets  : (N + 1,) long  note n is x[offsets[n]:offsets[n+1]], offsets[0] = 0,
               offsets[N] = total
    Tokens see only their own note; with causal=True (the default) only the
    present and earlier tokens of it. Returns (total, dim).
    """

    def __init__(self, dim=32, heads=4, causal=True, drop=0.1):
        super().__init__()
        self.heads, self.hd, self.causal, self.drop = heads, dim // heads, causal, drop
        self.w_q = nn.Linear(dim, dim)
        self.w_kv = nn.Linear(dim, 2 * dim)
        self.w_o = nn.Linear(dim, dim)

    def forward(self, x, offsets):
        total = x.shape[0]
        at = torch.arange(total, device=x.device)
        note = torch.bucketize(at, offsets[1:], right=True)
        see = note[:, None] == note[None, :]
        if self.causal:
            # global order equals order inside a note
            see = see & (at[:, None] >= at[None, :])

        q = self.w_q(x).unflatten(-1, (self.heads, self.hd)).transpose(0, 1)
        kv = self.w_kv(x).unflatten(-1, (2, self.heads, self.hd))
        k, v = kv.permute(1, 2, 0, 3).unbind(0)
        y = F.scaled_dot_product_attention(
            q[None], k[None], v[None], attn_mask=see,
            dropout_p=self.drop if self.training else 0.0,
        )[0]
        return self.w_o(y.transpose(0, 1).flatten(1))
