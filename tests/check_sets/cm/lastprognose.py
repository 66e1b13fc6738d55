"""Stromlast-Vorhersage: interpretable multi-head attention of the Temporal Fusion Transformer."""
import torch
import torch.nn as nn


class Deutbar(nn.Module):
    """All heads share ONE value projection, so that the head-averaged weights can be read as
    importances (Lim et al., 2021, eq. 14-16). Decoder steps attend to the encoder part and
    to decoder steps up to their own.

    verlauf: (B, n_enc + n_dec, dim); returns (B, n_dec, dim) and weights (B, n_dec, n_enc + n_dec).
    """

    def __init__(self, dim=16, koepfe=4):
        super().__init__()
        self.koepfe, self.d = koepfe, dim // koepfe
        self.q = nn.ModuleList(nn.Linear(dim, self.d) for _ in range(koepfe))
        self.k = nn.ModuleList(nn.Linear(dim, self.d) for _ in range(koepfe))
        self.v = nn.Linear(dim, self.d)
        self.aus = nn.Linear(self.d, dim, bias=False)
        self.tor = nn.Linear(dim, 2 * dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, verlauf, n_enc):
        T = verlauf.shape[1]
        ziel = verlauf[:, n_enc:]
        wert = self.v(verlauf)
        zeit = torch.arange(T, device=verlauf.device)
        gesperrt = zeit[None, :] > zeit[n_enc:, None]
        gewichte = 0.0
        for q, k in zip(self.q, self.k):
            s = q(ziel) @ k(verlauf).transpose(1, 2) / self.d ** 0.5
            gewichte = gewichte + s.masked_fill(gesperrt, -1e9).softmax(-1)
        gewichte = gewichte / self.koepfe
        h = self.aus(gewichte @ wert)
        return self.norm(ziel + nn.functional.glu(self.tor(h), dim=-1)), gewichte
