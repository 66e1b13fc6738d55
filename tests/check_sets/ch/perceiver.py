import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=16, dropout=0.):
        super().__init__()
        inner = heads * dim_head
        context_dim = query_dim if context_dim is None else context_dim
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, inner * 2, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.to_out = nn.Linear(inner, query_dim)

    def _split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        q = self._split(self.to_q(x))
        k, v = map(self._split, self.to_kv(context).chunk(2, dim=-1))
        sim = torch.einsum('b h i d, b h j d -> b h i j', q, k) * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        attn = self.dropout(sim.softmax(dim=-1))
        out = torch.einsum('b h i j, b h j d -> b i h d', attn, v)
        return self.to_out(out.flatten(2))


class FeedForward(nn.Sequential):
    def __init__(self, dim, mult=2):
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))


class Perceiver(nn.Module):
    """Latent array which reads a long input by cross attention.

    data: (b, m, input_dim); mask: optional bool (b, m), True = use this element.
    Output: class logits (b, num_classes).
    """

    def __init__(self, input_dim=10, latents=8, dim=32, depth=2, num_classes=7, dropout=0.1):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, dim))
        self.norm_data = nn.LayerNorm(input_dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                nn.LayerNorm(dim), Attention(dim, input_dim, dropout=dropout), FeedForward(dim),
                nn.LayerNorm(dim), Attention(dim, dropout=dropout), FeedForward(dim),
            ]))
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    def forward(self, data, mask=None):
        x = self.latents.expand(data.shape[0], -1, -1)
        data = self.norm_data(data)
        for n1, cross, ff1, n2, self_attn, ff2 in self.layers:
            x = x + cross(n1(x), context=data, mask=mask)
            x = x + ff1(x)
            x = x + self_attn(n2(x))
            x = x + ff2(x)
        return self.to_logits(x.mean(dim=1))
