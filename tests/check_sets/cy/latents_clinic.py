import torch
from torch import nn


class ClinicLatents(nn.Module):
    """A few learned latents read a patient's mixed measurements (notes, labs, vitals).

    feats : dict name -> (B, N_name, dim_name)
    valid : dict name -> (B, N_name) bool, True where a measurement exists.
    Entries where valid is False may hold anything, NaN included.
    A patient without any measurement gets latents that took up nothing
    from the reading step (they still pass through the MLP).
    """

    def __init__(self, dims: dict, width=32, n_latents=6, heads=4):
        super().__init__()
        self.heads = heads
        self.lift = nn.ModuleDict({k: nn.Linear(d, width) for k, d in dims.items()})
        self.kind = nn.ParameterDict({k: nn.Parameter(torch.randn(width) * 0.02) for k in dims})
        self.latents = nn.Parameter(torch.randn(n_latents, width))
        self.nq, self.nkv, self.nm = (nn.LayerNorm(width) for _ in range(3))
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, feats, valid):
        names = sorted(feats)
        clean = [feats[n].masked_fill(~valid[n][..., None], 0.0) for n in names]
        x = torch.cat([self.lift[n](c) + self.kind[n] for n, c in zip(names, clean)], dim=1)
        keep = torch.cat([valid[n] for n in names], dim=1)[:, None, None, :]

        B, N, W = x.shape
        z = self.latents.expand(B, -1, -1)
        cut = lambda t: t.reshape(B, t.shape[1], self.heads, -1).transpose(1, 2)
        k, v = self.kv(self.nkv(x)).chunk(2, dim=-1)
        q, k, v = cut(self.q(self.nq(z))), cut(k), cut(v)
        logits = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        logits = logits.masked_fill(~keep, torch.finfo(logits.dtype).min)
        w = logits.softmax(-1) * keep          # only matters for rows with nothing to read
        read = (w @ v).transpose(1, 2).reshape(B, -1, W)
        z = z + self.o(read)
        return z + self.mlp(self.nm(z))
