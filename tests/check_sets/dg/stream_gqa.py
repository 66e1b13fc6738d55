import torch
import torch.nn as nn
import torch.nn.functional as F


class StreamingGQA(nn.Module):
    """Grouped queries + ALiBi, fed chunk by chunk. heads must be a power of two."""

    def __init__(self, dim=64, heads=8, kv_heads=2, p=0.1):
        super().__init__()
        self.H, self.G, self.d, self.p = heads, kv_heads, dim // heads, p
        self.wq = nn.Linear(dim, heads * self.d, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.wo = nn.Linear(heads * self.d, dim, bias=False)
        h = torch.arange(1, heads + 1)
        self.register_buffer("slope", 2.0 ** (-8.0 * h / heads))

    def forward(self, x, state=None):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.H, self.d).transpose(1, 2)
        k = self.wk(x).view(B, T, self.G, self.d).transpose(1, 2)
        v = self.wv(x).view(B, T, self.G, self.d).transpose(1, 2)
        if state is not None:
            k = torch.cat([state[0], k], dim=2)
            v = torch.cat([state[1], v], dim=2)
        state = (k, v)
        S = k.size(2)
        i = torch.arange(S - T, S, device=x.device)[:, None]
        j = torch.arange(S, device=x.device)[None, :]
        bias = -self.slope[:, None, None] * (i - j)
        bias = bias.masked_fill(j > i, float("-inf")).to(q.dtype)
        rep = self.H // self.G
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1),
            attn_mask=bias, dropout_p=self.p if self.training else 0.0)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1)), state


@torch.no_grad()
def listen(layer, frames, chunk=4):
    layer.eval()
    out, state = [], None
    for part in frames.split(chunk, dim=1):
        y, state = layer(part, state)
        out.append(y)
    return torch.cat(out, 1)
