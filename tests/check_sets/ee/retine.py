"""Retine : la fovea interroge une image plus grossiere (attention a reduction spatiale, PVT).

Retine(c, tetes, r):  c canaux, tetes divise c, r = facteur de reduction

forward(img) :  img (B, H, L, c), canaux en dernier, H et L multiples de r
             -> (B, H, L, c)

Chaque pixel (apres LayerNorm) pose une question ; les cles et les valeurs viennent des
(H/r)*(L/r) pavés obtenus en moyennant l'image normalisee sur des carres r x r.
Scores divises par la racine de c / tetes, softmax sur les paves, puis projection et
connexion residuelle.
"""
import torch
from torch import nn
from torch.nn import functional as F


class Retine(nn.Module):
    def __init__(self, c, tetes, r):
        super().__init__()
        self.t, self.r = tetes, r
        self.norme = nn.LayerNorm(c)
        self.question = nn.Linear(c, c)
        self.cle_valeur = nn.Linear(c, 2 * c)
        self.sortie = nn.Linear(c, c)

    def forward(self, img):
        B, H, L, c = img.shape
        x = self.norme(img)
        q = self.question(x).reshape(B, H * L, self.t, -1)
        gros = F.avg_pool2d(x.permute(0, 3, 1, 2), self.r)          # (B, c, H/r, L/r)
        gros = gros.flatten(2).mT                                   # (B, P, c)
        kv = self.cle_valeur(gros).unflatten(2, (2, self.t, -1))
        k, v = kv[:, :, 0], kv[:, :, 1]                             # (B, P, t, e)
        # scores ranges (B, pave, pixel, tete)
        s = torch.einsum("bpte,bnte->bpnt", k, q) / q.shape[-1] ** 0.5
        a = s.softmax(dim=1)
        y = torch.einsum("bpnt,bpte->bnte", a, v)
        return img + self.sortie(y.reshape(B, H, L, c))
