import torch
import torch.nn as nn


class Head(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.q = nn.Linear(d_model, d_k)
        self.k = nn.Linear(d_model, d_k)
        self.v = nn.Linear(d_model, d_k)

    def forward(self, x, mem, mask=None):
        s = self.q(x) @ self.k(mem).transpose(1, 2) / self.k.out_features**0.5
        if mask is not None:
            s = s + mask
        return s.softmax(dim=-1) @ self.v(mem)


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = [Head(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, mem, mask=None):
        return self.proj(torch.cat([h(x, mem, mask) for h in self.heads], dim=-1))


class DecoderLayer(nn.Module):
    def __init__(self, d_model=32, n_heads=4, d_ff=64):
        super().__init__()
        self.self_attn = MultiHead(d_model, n_heads)
        self.cross_attn = MultiHead(d_model, n_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, y, memory, src_ids):
        # y: (B, T, d), memory: (B, S, d), src_ids: (B, S), 0 = <pad>
        T = y.size(1)
        causal = torch.tril(torch.ones(T, T, dtype=torch.bool, device=y.device))
        y = self.ln[0](y + self.self_attn(y, y, causal))
        src_mask = (src_ids != 0).unsqueeze(1)
        y = self.ln[1](y + self.cross_attn(y, memory, src_mask))
        return self.ln[2](y + self.ff(y))
