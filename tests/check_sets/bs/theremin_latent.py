"""Streaming continuation of theremin performances (pitch/volume antenna codes).

The decoder keeps a *latent* memory as in multi-head latent attention: per step we store
one compressed vector c (rank r) and one rotary key shared by every head, nothing else.
At playing time the up-projections are absorbed:

    score_h(t, s) = [ q_nope_h(t) W_uk_h ] . c(s) + rot(q_rope_h(t)) . rot(k_rope(s))
    out_h(t)      = [ sum_s p(t, s) c(s) ] W_uv_h

which is the same as expanding k = W_uk c and v = W_uv c.  Causal; the step t sees s <= t.
"""
import torch
from torch import nn


def _phase(x, pos, base=500.0):
    # halves are paired: (x[i], x[i + n])
    n = x.shape[-1] // 2
    w = base ** (-torch.arange(n, device=x.device, dtype=x.dtype) / n)
    a = pos.to(x.dtype)[:, None] * w
    lo, hi = x[..., :n], x[..., n:]
    return torch.cat((lo * a.cos() - hi * a.sin(), hi * a.cos() + lo * a.sin()), -1)


class LatentMemory:
    def __init__(self):
        self.c = None
        self.kr = None

    def __len__(self):
        return 0 if self.c is None else self.c.size(1)

    def push(self, c, kr):
        self.c = c if self.c is None else torch.cat([self.c, c], 1)
        self.kr = kr if self.kr is None else torch.cat([self.kr, kr], 1)
        return self.c, self.kr


class LatentAttention(nn.Module):
    def __init__(self, d_model=40, n_head=4, d_nope=10, d_rope=4, d_v=12, rank=16):
        super().__init__()
        self.H, self.dn, self.dr, self.dv = n_head, d_nope, d_rope, d_v
        self.wq = nn.Linear(d_model, n_head * (d_nope + d_rope), bias=False)
        self.w_down = nn.Linear(d_model, rank + d_rope, bias=False)
        self.c_norm = nn.LayerNorm(rank)
        self.w_uk = nn.Parameter(torch.randn(n_head, d_nope, rank) * rank ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(n_head, d_v, rank) * rank ** -0.5)
        self.wo = nn.Linear(n_head * d_v, d_model, bias=False)
        self.rank = rank

    def forward(self, x, memory=None):
        """x [B, T, d_model]: the T newest steps.  ``memory`` is extended in passing."""
        B, T, _ = x.shape
        memory = LatentMemory() if memory is None else memory
        start = len(memory)
        pos = torch.arange(start, start + T, device=x.device)

        q = self.wq(x).view(B, T, self.H, self.dn + self.dr).transpose(1, 2)
        qn, qr = q.split([self.dn, self.dr], dim=-1)
        qr = _phase(qr, pos)

        c, kr = self.w_down(x).split([self.rank, self.dr], dim=-1)
        c, kr = memory.push(self.c_norm(c), _phase(kr, pos))

        q_lat = torch.einsum("bhtn,hnr->bhtr", qn, self.w_uk)
        s = torch.einsum("bhtr,bsr->bhts", q_lat, c) + torch.einsum("bhtd,bsd->bhts", qr, kr)
        s = s * (self.dn + self.dr) ** -0.5
        ahead = torch.arange(c.size(1), device=x.device)[None, :] > pos[:, None]
        p = s.masked_fill(ahead, -torch.inf).softmax(-1, dtype=torch.float32).to(x.dtype)
        lat = torch.einsum("bhts,bsr->bhtr", p, c)
        y = torch.einsum("bhtr,hvr->bthv", lat, self.w_uv)
        return self.wo(y.flatten(2))


class ThereminPlayer(nn.Module):
    def __init__(self, codes=64, d_model=40, layers=2):
        super().__init__()
        self.emb = nn.Embedding(codes, d_model)
        self.att = nn.ModuleList(LatentAttention(d_model) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.head = nn.Linear(d_model, codes)

    def forward(self, codes, memories):
        h = self.emb(codes)
        for norm, att, mem in zip(self.norm, self.att, memories):
            h = h + att(norm(h), mem)
        return self.head(h)

    @torch.inference_mode()
    def improvise(self, phrase, steps, temperature=1.0, generator=None):
        mems = [LatentMemory() for _ in self.att]
        new, played = phrase, [phrase]
        for _ in range(steps):
            p = (self(new, mems)[:, -1] / temperature).softmax(-1)
            new = torch.multinomial(p, 1, generator=generator)
            played.append(new)
        return torch.cat(played, 1)


if __name__ == "__main__":
    g = torch.Generator().manual_seed(1920)
    print(ThereminPlayer().eval().improvise(torch.tensor([[3, 5, 8]]), 12, generator=g))
