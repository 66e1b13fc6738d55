"""Un pas de décodeur pour la synthèse vocale (façon Tacotron 2).

Attention « sensible à la position » :

    e_j = v^T tanh( W s + V h_j + U f_j + b ),   f = conv( somme des poids passés )
    a   = softmax sur les caractères j
    c   = somme_j a_j h_j

Tailles
    h       (B, N, enc)  sorties de l'encodeur de caractères
    rempli  (B, N) bool  True = remplissage, ce caractère n'existe pas (poids nul) ;
                         chaque phrase a au moins un caractère
    trame   (B, mel)     trame précédente
    etat    dict rendu par `debut` puis par chaque pas

`forward` rend (trame suivante (B, mel), probabilité d'arrêt (B,), poids (B, N), état).
"""
import torch
from torch import nn


class AttentionPosition(nn.Module):
    def __init__(self, enc, dec, dim=64, filtres=8, noyau=15):
        super().__init__()
        self.W = nn.Linear(dec, dim, bias=False)
        self.V = nn.Linear(enc, dim, bias=False)
        self.conv = nn.Conv1d(1, filtres, noyau, padding=noyau // 2, bias=False)
        self.U = nn.Linear(filtres, dim)          # son biais est le b de la formule
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, s, h, cumul, rempli):
        f = self.conv(cumul.unsqueeze(1)).transpose(1, 2)
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + self.V(h) + self.U(f))).squeeze(-1)
        a = torch.softmax(e.masked_fill(rempli, -float("inf")), dim=-1)
        return torch.bmm(a.unsqueeze(1), h).squeeze(1), a


class PasDecodeur(nn.Module):
    def __init__(self, enc=64, dec=96, mel=40):
        super().__init__()
        self.dec = dec
        self.prenet = nn.Sequential(nn.Linear(mel, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.cellule = nn.LSTMCell(48 + enc, dec)
        self.attention = AttentionPosition(enc, dec)
        self.sortie = nn.Linear(dec + enc, mel)
        self.arret = nn.Linear(dec + enc, 1)

    def debut(self, h):
        z = h.new_zeros(h.size(0), self.dec)
        return {"s": z, "c": z, "ctx": h.new_zeros(h.size(0), h.size(2)),
                "cumul": h.new_zeros(h.shape[:2])}

    def forward(self, trame, h, rempli, etat):
        x = torch.cat([self.prenet(trame), etat["ctx"]], dim=-1)
        s, c = self.cellule(x, (etat["s"], etat["c"]))
        ctx, a = self.attention(s, h, etat["cumul"], rempli)
        y = torch.cat([s, ctx], dim=-1)
        nouveau = {"s": s, "c": c, "ctx": ctx, "cumul": etat["cumul"] + a}
        return self.sortie(y), torch.sigmoid(self.arret(y)).squeeze(-1), a, nouveau
