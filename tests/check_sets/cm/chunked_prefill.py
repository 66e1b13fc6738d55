"""Multi-query attention with chunked prefill, from the serving prototype."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiQueryAttention(nn.Module):
    """Causal; all heads share one key/value head.

    x (B, T, dim) is the next chunk of the prompt (T may be anything, 1 when decoding) and `past`
    the (k, v) of the chunks before, (B, T_past, d) each. Every token sees all earlier tokens,
    cached or not, and itself. Returns (y, (k, v)).
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * self.d, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past=None):
        B, T, D = x.shape
        q = self.wq(x).view(B, T, self.heads, self.d).transpose(1, 2)
        k, v = self.wkv(x).split(self.d, dim=-1)
        if past is not None:
            k = torch.cat((past[0], k), dim=1)
            v = torch.cat((past[1], v), dim=1)
        S = k.shape[1]
        mask = None
        if T > 1:
            mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril()
        kh = k.unsqueeze(1).expand(B, self.heads, S, self.d)
        vh = v.unsqueeze(1).expand(B, self.heads, S, self.d)
        y = F.scaled_dot_product_attention(q, kh, vh, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(B, T, D)), (k, v)


def prefill(attn, x, chunk=4):
    """Feeds x through the layer in chunks; the same as one call on all of x."""
    out, past = [], None
    for part in x.split(chunk, dim=1):
        y, past = attn(part, past)
        out.append(y)
    return torch.cat(out, dim=1)
