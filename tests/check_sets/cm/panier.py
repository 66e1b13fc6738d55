"""Panier : recommandation d'un article à partir du contenu du panier."""
import torch
import torch.nn as nn


class Panier(nn.Module):
    """articles : (B, L) identifiants, 0 = case vide. Un article candidat (B,) interroge le panier ;
    les cases vides n'entrent pas dans la moyenne pondérée. Renvoie un score (B,)."""

    def __init__(self, n_articles=60, dim=16, tetes=2):
        super().__init__()
        self.table = nn.Embedding(n_articles, dim)
        self.contexte = nn.MultiheadAttention(dim, tetes, batch_first=True)
        self.regard = nn.MultiheadAttention(dim, tetes, batch_first=True)
        self.norme = nn.LayerNorm(dim)
        self.note = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, articles, candidat):
        plein = articles != 0
        e = self.table(articles)
        c = self.table(candidat).unsqueeze(1)
        z, _ = self.contexte(e, e, e, key_padding_mask=plein, need_weights=False)
        e = self.norme(e + z)
        r, _ = self.regard(c, e, e, key_padding_mask=plein, need_weights=False)
        return self.note(torch.cat((c, r), dim=-1)).flatten()


if __name__ == "__main__":
    modele = Panier().eval()
    panier = torch.tensor([[3, 4, 5, 0], [7, 8, 0, 0]])
    print(modele(panier, torch.tensor([9, 10])))
