"""Causal linear attention (elu + 1 features) for symbolic music, with a recurrent step
for live playing."""
import torch
from torch import nn


def phi(x):
    return nn.functional.elu(x) + 1.0


class LinearCausal(nn.Module):
    def __init__(self, d, heads, chunk=8, eps=1e-6):
        super().__init__()
        self.h, self.dh, self.chunk, self.eps = heads, d // heads, chunk, eps
        self.in_proj = nn.Linear(d, 3 * d)
        self.out_proj = nn.Linear(d, d)

    def _qkv(self, x):
        b, t, _ = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (z.reshape(b, t, self.h, self.dh).transpose(1, 2) for z in (q, k, v))
        return phi(q), phi(k), v

    def forward(self, x, lengths=None):
        """x: [b, t, d]; lengths: [b], events after the length are padding."""
        b, t, d = x.shape
        q, k, v = self._qkv(x)
        if lengths is not None:
            live = torch.arange(t, device=x.device)[None] < lengths[:, None]
            k = k * live[:, None, :, None]
        S = x.new_zeros(b, self.h, self.dh, self.dh)
        z = x.new_zeros(b, self.h, self.dh)
        outs = []
        for i in range(0, t, self.chunk):
            qc, kc, vc = q[:, :, i:i + self.chunk], k[:, :, i:i + self.chunk], v[:, :, i:i + self.chunk]
            inner = torch.tril(qc @ kc.transpose(-1, -2))
            num = inner @ vc + qc @ S
            den = inner.sum(-1) + torch.einsum("bhtd,bhd->bht", qc, z)
            outs.append(num / (den + self.eps).unsqueeze(-1))
            S = S + kc.transpose(-1, -2) @ vc
            z = z + kc.sum(2)
        y = torch.cat(outs, dim=2).transpose(1, 2).reshape(b, t, d)
        return self.out_proj(y)

    def step(self, x, state=None):
        """One event x: [b, d]."""
        q, k, v = self._qkv(x[:, None])
        q, k, v = q[:, :, 0], k[:, :, 0], v[:, :, 0]
        if state is None:
            state = (torch.zeros_like(k).unsqueeze(-1) * v.unsqueeze(-2), torch.zeros_like(k))
        S = state[0] + k.unsqueeze(-1) * v.unsqueeze(-2)
        z = state[1] + k
        num = torch.einsum("bhd,bhde->bhe", q, S)
        den = (q * z).sum(-1, keepdim=True) + self.eps
        return self.out_proj((num / den).flatten(1)), (S, z)


class Improviser(nn.Module):
    def __init__(self, pitches=128, d=32, heads=4, layers=2):
        super().__init__()
        self.pitch = nn.Embedding(pitches, d)
        self.dur = nn.Linear(1, d)
        self.layers = nn.ModuleList(LinearCausal(d, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.out = nn.Linear(d, pitches)

    def forward(self, pitch, dur, lengths=None):
        x = self.pitch(pitch) + self.dur(dur.unsqueeze(-1))
        for n, l in zip(self.norms, self.layers):
            x = x + l(n(x), lengths)
        return self.out(x)
