"""Feinabstimmung eines kleinen Sprachmodells auf Wildkräuter-Beschreibungen.

Grouped-Query-Attention wie in den Llama-Gewichten, die hier geladen werden:
Anfragekopf h gehört zur Schlüsselgruppe h // (H / G).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

KONFIG = {"d_modell": 48, "koepfe": 6, "gruppen": 2, "rang": 4, "alpha": 16, "theta": 10000.0}


class Adapter(nn.Module):
    """LoRA: eingefrorene Basis plus Niedrigrang-Korrektur."""

    def __init__(self, ein, aus, rang, alpha):
        super().__init__()
        self.basis = nn.Linear(ein, aus, bias=False)
        self.basis.weight.requires_grad = False
        self.A = nn.Parameter(torch.randn(rang, ein) * 0.02)
        self.B = nn.Parameter(torch.zeros(aus, rang))
        self.s = alpha / rang

    def forward(self, x):
        return self.basis(x) + (x @ self.A.T @ self.B.T) * self.s

    @torch.no_grad()
    def verschmelze(self):
        self.basis.weight += self.s * self.B @ self.A
        self.B.zero_()


def drehe(x, theta):
    """Rotationskodierung, Halbierungs-Layout; x: [B, K, L, d]."""
    L, d = x.shape[-2:]
    f = theta ** (-torch.arange(0, d, 2, device=x.device) / d)
    w = torch.arange(L, device=x.device)[:, None] * f
    c, s = w.cos().repeat(1, 2), w.sin().repeat(1, 2)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return x * c + torch.cat([-b, a], -1) * s


class GruppenAttention(nn.Module):
    """Kausal; x: [B, L, d_modell] -> gleiche Form."""

    def __init__(self, k=KONFIG):
        super().__init__()
        self.H, self.G = k["koepfe"], k["gruppen"]
        self.d = k["d_modell"] // self.H
        self.theta = k["theta"]
        self.q_proj = Adapter(k["d_modell"], self.H * self.d, k["rang"], k["alpha"])
        self.k_proj = nn.Linear(k["d_modell"], self.G * self.d, bias=False)
        self.v_proj = Adapter(k["d_modell"], self.G * self.d, k["rang"], k["alpha"])
        self.o_proj = nn.Linear(self.H * self.d, k["d_modell"], bias=False)

    def forward(self, x):
        B, L, _ = x.shape
        q = self.q_proj(x).view(B, L, self.H, self.d).transpose(1, 2)
        k = self.k_proj(x).view(B, L, self.G, self.d).transpose(1, 2)
        v = self.v_proj(x).view(B, L, self.G, self.d).transpose(1, 2)
        q, k = drehe(q, self.theta), drehe(k, self.theta)
        n = self.H // self.G
        k = k.repeat(1, n, 1, 1)
        v = v.repeat(1, n, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, L, -1))


class Decoderlage(nn.Module):
    def __init__(self, k=KONFIG):
        super().__init__()
        d = k["d_modell"]
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.att = GruppenAttention(k)
        self.tor, self.auf, self.ab = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        h = self.n2(x)
        return x + self.ab(F.silu(self.tor(h)) * self.auf(h))


if __name__ == "__main__":
    lage = Decoderlage()
    print(lage(torch.randn(2, 7, 48)).shape, sum(p.requires_grad for p in lage.parameters()))
