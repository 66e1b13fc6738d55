"""PPO agent with an episodic memory of past hidden states (gated TrXL flavour)."""
import torch
import torch.nn as nn


class GRUGate(nn.Module):
    def __init__(self, d, bias=2.0):
        super().__init__()
        self.x = nn.Linear(d, 3 * d, bias=False)
        self.h = nn.Linear(d, 2 * d, bias=False)
        self.g = nn.Linear(d, d, bias=False)
        self.b = nn.Parameter(torch.full((d,), bias))

    def forward(self, res, y):
        xr, xz, xg = self.x(y).chunk(3, -1)
        hr, hz = self.h(res).chunk(2, -1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz - self.b)
        return (1 - z) * res + z * torch.tanh(xg + self.g(r * res))


class MemoryBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.nq, self.nm, self.nf = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.proj = nn.Linear(d, d)
        self.fc = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.g1, self.g2 = GRUGate(d), GRUGate(d)

    def forward(self, h, mem, mem_mask):
        """h (B,d) current step, mem (B,M,d), mem_mask (B,M) 1 = slot holds a past step."""
        B, M, d = mem.shape
        q = self.q(self.nq(h)).view(B, self.heads, self.hd)
        k, v = self.kv(self.nm(mem)).view(B, M, 2, self.heads, self.hd).unbind(2)
        e = torch.einsum("bhd,bmhd->bhm", q, k) / self.hd ** 0.5
        ok = mem_mask[:, None, :].bool()
        e = e.masked_fill(~ok, -1e9)
        # in the first step of an episode nothing is stored yet
        a = torch.softmax(e, -1) * ok
        y = torch.einsum("bhm,bmhd->bhd", a, v).reshape(B, d)
        h = self.g1(h, torch.relu(self.proj(y)))
        return self.g2(h, self.fc(self.nf(h)))


class EpisodicAgent(nn.Module):
    def __init__(self, obs_dim, n_act, d=32, heads=4, layers=2, mem_len=16):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(obs_dim, d), nn.ReLU())
        self.blocks = nn.ModuleList(MemoryBlock(d, heads) for _ in range(layers))
        self.time = nn.Parameter(torch.randn(mem_len, d) * 0.02)
        self.pi, self.vf = nn.Linear(d, n_act), nn.Linear(d, 1)
        self.mem_len = mem_len

    def reset(self, n):
        return {
            "mem": torch.zeros(n, len(self.blocks), self.mem_len, self.time.size(1)),
            "mask": torch.zeros(n, self.mem_len),
        }

    def forward(self, batch: dict):
        h = self.enc(batch["obs"])
        new = []
        for i, blk in enumerate(self.blocks):
            new.append(h)
            h = blk(h, batch["mem"][:, i] + self.time, batch["mask"])
        mem = torch.cat([batch["mem"][:, :, 1:], torch.stack(new, 1)[:, :, None].detach()], 2)
        mask = torch.cat([batch["mask"][:, 1:], torch.ones_like(batch["mask"][:, :1])], 1)
        return {"logits": self.pi(h), "value": self.vf(h).squeeze(-1), "mem": mem, "mask": mask}
