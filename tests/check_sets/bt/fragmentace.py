"""Fragmentace iontů v tandemové hmotnostní spektrometrii.

Pík se dívá na ostatní píky téhož spektra; skóre má navíc člen podle neutrální ztráty
(rozdíl m/z). Při trénování se náhodně vypouštějí vazby mezi píky (výpadek vah), při
vyhodnocení nikdy. Mezi epochami se model přepíná sem a tam: po eval() a novém train()
se výpadek zase používá.
"""
import torch
from torch import nn
from torch.nn import functional as F

ZTRATY = (17.0265, 18.0106, 27.9949, 43.9898, 79.9663)   # NH3, H2O, CO, CO2, HPO3


class Vypadek:
    """Jen drží pravděpodobnost, aby ji šlo měnit zvenku (rozvrh zahřívání)."""

    def __init__(self, p):
        self.p = p

    def __call__(self, w):
        return F.dropout(w, self.p) if self.p > 0 else w


class ZtratovyClen(nn.Module):
    """Pro každou známou neutrální ztrátu jeden naučený přídavek na hlavu."""

    def __init__(self, hlavy, sirka=0.01):
        super().__init__()
        self.register_buffer("ztraty", torch.tensor(ZTRATY))
        self.sirka = sirka
        self.vaha = nn.Parameter(torch.zeros(len(ZTRATY), hlavy))

    def forward(self, mz):
        rozdil = (mz[:, :, None] - mz[:, None, :]).abs()[..., None]
        shoda = torch.exp(-((rozdil - self.ztraty) / self.sirka) ** 2)
        return torch.einsum("bijl,lh->bhij", shoda, self.vaha)


class PikyMeziSebou(nn.Module):
    """x [B, N, D], mz [B, N], je_pik [B, N] (True = skutečný pík; vždy aspoň jeden)."""

    def __init__(self, D=24, hlavy=3, p=0.2):
        super().__init__()
        self.hlavy = hlavy
        self.qkv = nn.Linear(D, 3 * D)
        self.clen = ZtratovyClen(hlavy)
        self.vypadek = Vypadek(p)
        self.ven = nn.Linear(D, D)

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            self.vypadek.p = 0.0
        return self

    def forward(self, x, mz, je_pik):
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.hlavy, D // self.hlavy).permute(2, 0, 3, 1, 4)
        skore = (q @ k.transpose(-2, -1)) * (D // self.hlavy) ** -0.5 + self.clen(mz)
        skore = skore.masked_fill(~je_pik[:, None, None, :], -1e9)
        vahy = self.vypadek(torch.softmax(skore, -1))
        return self.ven((vahy @ v).transpose(1, 2).reshape(B, N, D))


class Spektrum(nn.Module):
    """Vektor spektra pro hledání v knihovně."""

    def __init__(self, D=24, vrstvy=2):
        super().__init__()
        self.vstup = nn.Linear(2, D)
        self.vrstvy = nn.ModuleList(PikyMeziSebou(D) for _ in range(vrstvy))
        self.normy = nn.ModuleList(nn.LayerNorm(D) for _ in range(vrstvy))

    def forward(self, mz, intenzita, je_pik):
        h = self.vstup(torch.stack([mz / 1000, intenzita.sqrt()], -1))
        for vrstva, norma in zip(self.vrstvy, self.normy):
            h = h + vrstva(norma(h), mz, je_pik)
        w = (intenzita * je_pik).unsqueeze(-1)
        return F.normalize((h * w).sum(1) / w.sum(1).clamp_min(1e-6), dim=-1)


def epocha(model, davky, krok):
    model.train()
    for d in davky:
        krok(model(*d))
    model.eval()
    with torch.no_grad():
        return torch.cat([model(*d) for d in davky])


if __name__ == "__main__":
    d = (torch.rand(2, 8) * 900 + 50, torch.rand(2, 8), torch.arange(8)[None] < torch.tensor([[8], [5]]))
    print(epocha(Spektrum(), [d], lambda y: None).shape)
