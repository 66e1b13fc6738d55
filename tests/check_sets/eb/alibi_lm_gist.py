"""tiny ALiBi LM -- train short, test long (Press et al. 2022)

per head h = 1..n (n a power of two): slope m_h = 2^(-8 h / n), so the first of 8 heads has 1/2
and the last 1/256.  logits = q.k / sqrt(d_head) - m_h * (i - j), causal, softmax over j.
no position embedding anywhere.
"""
import torch
import torch.nn as nn


class ALiBiBlock(nn.Module):
    def __init__(self, w, n):
        super().__init__()
        self.n = n
        self.ln = nn.LayerNorm(w)
        self.q, self.k, self.v = (nn.Linear(w, w, bias=False) for _ in range(3))
        self.o = nn.Linear(w, w, bias=False)
        h = torch.arange(n, dtype=torch.float32)
        self.register_buffer("m", torch.pow(2.0, -8.0 * h / n))

    def forward(self, x):
        B, T, W = x.shape
        y = self.ln(x)
        hd = lambda t: t.view(B, T, self.n, -1).permute(0, 2, 1, 3)
        q, k, v = hd(self.q(y)), hd(self.k(y)), hd(self.v(y))
        pos = torch.arange(T, device=x.device)
        dist = (pos[:, None] - pos[None, :]).to(x.dtype)
        logits = q @ k.transpose(2, 3)
        logits = logits - self.m.view(1, -1, 1, 1) * dist
        logits = logits.masked_fill(dist < 0, float("-inf"))
        y = logits.softmax(3) @ v
        return x + self.o(y.permute(0, 2, 1, 3).reshape(B, T, W))


class LM(nn.Module):
    def __init__(self, V=50, w=32, n=4, layers=2):
        super().__init__()
        self.e = nn.Embedding(V, w)
        self.b = nn.ModuleList(ALiBiBlock(w, n) for _ in range(layers))
        self.f = nn.LayerNorm(w)

    def forward(self, ids):
        """ids (B, T) long, any T -> next-token logits (B, T, V)"""
        x = self.e(ids)
        for b in self.b:
            x = b(x)
        return self.f(x) @ self.e.weight.t()
