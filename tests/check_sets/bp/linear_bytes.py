import torch
from torch import nn
import torch.nn.functional as F

# helpers

def exists(val):
    return val is not None

def default(val, d):
    return val if exists(val) else d

class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)

class FeedForward(nn.Module):
    def __init__(self, dim, mult = 4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))

    def forward(self, x):
        return self.net(x)

# https://arxiv.org/abs/2006.16236 - phi(x) = elu(x) + 1, causal by running sums

class CausalLinearAttention(nn.Module):
    def __init__(self, dim, heads = 8, dim_head = None, eps = 1e-6):
        super().__init__()
        dim_head = default(dim_head, dim // heads)
        self.heads = heads
        self.eps = eps
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias = False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x, mask = None):
        # mask: (b, n) bool, True = real byte, False = padding
        b, n, _, h = *x.shape, self.heads
        q, k, v = self.to_qkv(x).chunk(3, dim = -1)
        q, k, v = map(lambda t: t.reshape(b, n, h, -1).transpose(1, 2), (q, k, v))

        q = F.elu(q) + 1.
        k = F.elu(k) + 1.

        if exists(mask):
            k = k.masked_fill(~mask[:, None, :, None], 0.)

        context = torch.einsum('b h n d, b h n e -> b h n d e', k, v).cumsum(dim = 2)
        norm = torch.einsum('b h n d, b h n d -> b h n', q, k.cumsum(dim = 2))
        out = torch.einsum('b h n d, b h n d e -> b h n e', q, context)
        out = out / norm.clamp(min = self.eps).unsqueeze(-1)

        out = out.transpose(1, 2).reshape(b, n, -1)
        return self.to_out(out)

class ByteLM(nn.Module):
    def __init__(self, dim = 64, depth = 2, heads = 4, num_tokens = 256, max_seq_len = 512):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.pos_emb = nn.Embedding(max_seq_len, dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                PreNorm(dim, CausalLinearAttention(dim, heads = heads)),
                PreNorm(dim, FeedForward(dim))
            ]))
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_tokens))

    def forward(self, x, mask = None):
        x = self.token_emb(x) + self.pos_emb(torch.arange(x.shape[1], device = x.device))
        for attn, ff in self.layers:
            x = attn(x, mask = mask) + x
            x = ff(x) + x
        return self.to_logits(x)
