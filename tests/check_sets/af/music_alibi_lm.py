# %% [markdown]
# # Folk tunes LM
# Tiny decoder for ABC notation, linear biases so that we can train on 128 and sample 512.

# %%
import math
import torch
import torch.nn as nn


# %%
def head_slopes(n):
    def geometric(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]

    if math.log2(n).is_integer():
        return geometric(n)
    near = 2 ** math.floor(math.log2(n))
    return geometric(near) + geometric(2 * near)[0::2][: n - near]


# %%
class TuneAttention(nn.Module):
    """Causal attention, linear bias.  The row constant  -m*i  drops out of the softmax, so only
    the key part  +m*j  is added: the same row of numbers for every query (cheap to cache)."""

    def __init__(self, width, heads, max_len=1024, drop=0.0):
        super().__init__()
        if width % heads:
            raise ValueError("heads must divide width")
        self.heads = heads
        self.wqkv = nn.Linear(width, 3 * width)
        self.wo = nn.Linear(width, width)
        self.drop = nn.Dropout(drop)
        m = torch.tensor(head_slopes(heads))
        self.register_buffer("key_bias", m[:, None] * torch.arange(max_len)[None, :].float())

    def forward(self, x, cache=None):
        """x (B, T, width).  cache = (k, v) of earlier tokens or None."""
        B, T, W = x.shape
        qkv = self.wqkv(x).unflatten(-1, (3, self.heads, W // self.heads))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            k = torch.cat((cache[0], k), dim=-2)
            v = torch.cat((cache[1], v), dim=-2)
        S = k.size(-2)
        logits = q @ k.mT * (W // self.heads) ** -0.5
        logits = logits + self.key_bias[:, None, :S]
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        w = torch.softmax(logits.masked_fill(future, -torch.inf), -1)
        y = self.drop(w) @ v
        return self.wo(y.permute(0, 2, 1, 3).flatten(2)), (k, v)


# %%
class TuneLM(nn.Module):
    def __init__(self, vocab, width=96, heads=6, depth=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.att = nn.ModuleList([TuneAttention(width, heads) for _ in range(depth)])
        self.mlp = nn.ModuleList([
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, caches=None):
        x, new = self.tok(ids), []
        for i, att in enumerate(self.att):
            y, c = att(self.ln[i](x), None if caches is None else caches[i])
            new.append(c)
            x = x + y
            x = x + self.mlp[i](x)
        return self.head(x), new


# %%
if __name__ == "__main__":
    torch.manual_seed(0)
    lm = TuneLM(40).eval()
    ids = torch.randint(0, 40, (2, 9))
    full, _ = lm(ids)
    a, c = lm(ids[:, :5])
    b, _ = lm(ids[:, 5:], c)
    print((torch.cat([a, b], 1) - full).abs().max())
