import torch, torch.nn as nn, torch.nn.functional as F

# hyper-parameters the way i like them: one flat dict, no classes
HP = {
    "dim": 64, "n_head": 4, "n_kv": 2, "head_dim": 16,
    "cap_attn": 50.0,        # tanh cap on attention logits, None = off
    "q_scalar": 16,          # gemma's query_pre_attn_scalar
    "window": 4,             # local layers: number of tokens visible, incl. the current one
    "pattern": "LG",         # L local, G global, repeated over the depth
    "depth": 2, "vocab": 256, "cap_out": 30.0,
}


def cap(x, c):
    return x if c is None else c * torch.tanh(x / c)


def rms(x, w, eps=1e-6):
    y = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (y * (1.0 + w.float())).to(x.dtype)


def rope(x, theta=10_000.0):                      # x: b h t d, half-split
    t, d = x.shape[-2:]
    f = theta ** -(torch.arange(d // 2, dtype=torch.float32) * 2 / d)
    a = torch.arange(t, dtype=torch.float32)[:, None] * f
    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1)


class Attn(nn.Module):
    """causal GQA, logits are capped first and masked afterwards; query heads
    2i, 2i+1 read kv head i (for n_head=4, n_kv=2)"""

    def __init__(self, hp, local):
        super().__init__()
        self.hp, self.local = hp, local
        d = hp["head_dim"]
        self.q = nn.Linear(hp["dim"], hp["n_head"] * d, bias=False)
        self.kv = nn.Linear(hp["dim"], 2 * hp["n_kv"] * d, bias=False)
        self.o = nn.Linear(hp["n_head"] * d, hp["dim"], bias=False)

    def forward(self, x):
        hp = self.hp
        b, t, _ = x.shape
        q = self.q(x).view(b, t, hp["n_head"], -1).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, hp["n_kv"], -1).permute(2, 0, 3, 1, 4)
        q, k = rope(q), rope(k)
        r = hp["n_head"] // hp["n_kv"]
        k, v = k.repeat_interleave(r, 1), v.repeat_interleave(r, 1)
        z = cap(q @ k.transpose(-1, -2) * hp["q_scalar"] ** -0.5, hp["cap_attn"])
        i = torch.arange(t)
        gap = i[:, None] - i[None, :]
        ok = gap >= 0
        if self.local:
            ok &= gap < hp["window"]
        z = z.masked_fill(~ok, float("-inf"))
        p = F.softmax(z.float(), -1).to(v.dtype)
        return self.o((p @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, hp, i):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.zeros(hp["dim"])), nn.Parameter(torch.zeros(hp["dim"]))
        self.attn = Attn(hp, hp["pattern"][i % len(hp["pattern"])] == "L")
        self.up = nn.Linear(hp["dim"], 256, bias=False)
        self.down = nn.Linear(128, hp["dim"], bias=False)

    def forward(self, x):
        x = x + self.attn(rms(x, self.w1))
        g, u = self.up(rms(x, self.w2)).chunk(2, -1)
        return x + self.down(F.gelu(g, approximate="tanh") * u)


class LM(nn.Module):
    def __init__(self, hp=HP):
        super().__init__()
        self.hp = hp
        self.emb = nn.Embedding(hp["vocab"], hp["dim"])
        self.blocks = nn.ModuleList(Block(hp, i) for i in range(hp["depth"]))

    def forward(self, idx):
        x = self.emb(idx) * self.hp["dim"] ** 0.5
        for blk in self.blocks:
            x = blk(x)
        return cap(x @ self.emb.weight.t(), self.hp["cap_out"])
