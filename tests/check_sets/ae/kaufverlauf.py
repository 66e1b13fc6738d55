import torch
import torch.nn as nn
import torch.nn.functional as F


class Verlaufsblock(nn.Module):
    """Sequenzielle Empfehlung: kausale Aufmerksamkeit über linksseitig aufgefüllte Kaufverläufe.

    verlauf: (B, L) Artikelnummern, 0 = Füllung (links). Ausgabe (B, L, D), Null an Füllstellen.
    """

    def __init__(self, artikel, D, koepfe=2, L=50, p=0.2):
        super().__init__()
        self.koepfe, self.p = koepfe, p
        self.tabelle = nn.Embedding(artikel + 1, D, padding_idx=0)
        self.platz = nn.Embedding(L, D)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D, D) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Dropout(p), nn.Linear(D, D))

    def sicht(self, echt):
        B, L = echt.shape
        rueckwaerts = torch.ones(L, L, dtype=torch.bool, device=echt.device).tril()
        selbst = torch.eye(L, dtype=torch.bool, device=echt.device)
        # Füllstellen sehen sich selbst, damit keine Zeile leer bleibt
        return ((rueckwaerts & echt[:, None, :]) | selbst)[:, None]

    def forward(self, verlauf):
        B, L = verlauf.shape
        echt = verlauf != 0
        x = self.tabelle(verlauf) * self.tabelle.embedding_dim ** 0.5
        x = x + self.platz(torch.arange(L, device=verlauf.device))
        x = F.dropout(x, self.p, self.training) * echt[..., None]

        n = self.norm1(x)
        teil = lambda t: t.view(B, L, self.koepfe, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(
            teil(self.wq(n)), teil(self.wk(n)), teil(self.wv(n)),
            attn_mask=self.sicht(echt), dropout_p=self.p if self.training else 0.0)
        x = x + self.wo(a.transpose(1, 2).reshape(B, L, -1))
        x = x + self.ff(self.norm2(x))
        return x * echt[..., None]

    def punkte(self, verlauf, kandidaten):
        h = self(verlauf)[:, -1]
        return torch.einsum("bd,bkd->bk", h, self.tabelle(kandidaten))
