# whale song units -> next unit.  small LM, incremental sampling on the hydrophone buoy
import torch
from torch import nn
from torch.nn import functional as F


class Rope:
    """half-split rotary tables, shape (max_len, d)"""

    def __init__(self, d, max_len=2048, base=10000.0):
        inv = 1.0 / base ** (torch.arange(0, d, 2).float() / d)
        ang = torch.outer(torch.arange(max_len).float(), inv)
        ang = torch.cat([ang, ang], dim=-1)
        self.cos, self.sin = ang.cos(), ang.sin()

    def __call__(self, x, start=0):
        n = x.shape[-2]
        c = self.cos[start:start + n].to(x)
        s = self.sin[start:start + n].to(x)
        a, b = x.chunk(2, dim=-1)
        return x * c + torch.cat([-b, a], dim=-1) * s


class SongAttention(nn.Module):
    """causal self attention

    forward(x, past=None) -> y, (k, v)
    `past` are the rotated keys and the values of all earlier calls; feeding a song
    in pieces is equivalent to feeding it whole.
    """

    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.rope = Rope(width // n_head)

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2)
                   for t in self.c_attn(x).split(C, dim=-1))
        offset = past[0].shape[1] if past is not None else 0
        q, k = self.rope(q, offset), self.rope(k, offset)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class SongLM(nn.Module):
    def __init__(self, units=64, width=48, n_head=3, depth=2):
        super().__init__()
        self.emb = nn.Embedding(units, width)
        self.att = nn.ModuleList(SongAttention(width, n_head) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                          nn.Linear(4 * width, width)) for _ in range(depth))
        self.out = nn.Linear(width, units)

    def forward(self, units, past=None):
        x, new = self.emb(units), []
        for i, (n, a, f) in enumerate(zip(self.n1, self.att, self.ff)):
            y, kv = a(n(x), None if past is None else past[i])
            x = x + y
            x = x + f(x)
            new.append(kv)
        return self.out(x), new

    @torch.no_grad()
    def sing(self, units, n, temperature=1.0):
        logits, past = self(units)
        for _ in range(n):
            p = (logits[:, -1] / temperature).softmax(-1)
            nxt = torch.multinomial(p, 1)
            units = torch.cat([units, nxt], 1)
            logits, past = self(nxt, past)
        return units
