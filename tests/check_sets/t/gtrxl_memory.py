import torch
import torch.nn as nn


class GRUGate(nn.Module):
    def __init__(self, d, bg=2.0):
        super().__init__()
        self.wr, self.ur = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wz, self.uz = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.wg, self.ug = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        nn.init.constant_(self.wz.bias, -bg)

    def forward(self, x, y):
        r = torch.sigmoid(self.wr(y) + self.ur(x))
        z = torch.sigmoid(self.wz(y) + self.uz(x))
        h = torch.tanh(self.wg(y) + self.ug(r * x))
        return (1 - z) * x + z * h


class MemoryAttention(nn.Module):
    # agent with memory: obs (B, T, D) are the newest steps, memory (B, M, D) the M steps before them.
    # each step attends to the whole memory and to the steps of this rollout up to itself
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)
        self.gate = GRUGate(dim)

    def forward(self, obs, memory=None):
        B, T, D = obs.shape
        ctx = obs if memory is None else torch.cat([memory.detach(), obs], dim=1)
        S = ctx.size(1)
        q = self.q(self.norm(obs)).view(B, T, self.n_heads, self.hd)
        k, v = self.kv(self.norm(ctx)).view(B, S, 2, self.n_heads, self.hd).unbind(2)
        logits = torch.einsum("bthd,bshd->bhts", q, k) / self.hd**0.5
        visible = torch.tril(torch.ones(T, S, dtype=torch.bool, device=obs.device))
        logits = logits.masked_fill(~visible, float("-inf"))
        out = torch.einsum("bhts,bshd->bthd", logits.softmax(-1), v).reshape(B, T, D)
        return self.gate(obs, torch.relu(self.o(out)))
