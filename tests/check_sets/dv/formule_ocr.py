# decodeur.py : image de formule -> LaTeX
import torch
import torch.nn as nn


class DecodeurFormule(nn.Module):
    """Décodeur LSTM avec attention de Luong (score « general » : s^T W h).

    carte  : (B, C, H, L) carte de caractéristiques du CNN
    cible  : (B, T) jetons d'entrée (décalés, enseignement forcé)
    Renvoie (logits (B, T, vocab), alphas (B, T, H, L)) ; chaque alpha somme à 1 sur la grille.
    Le vecteur attentionnel tanh(W_c [contexte ; s]) est réinjecté à l'entrée du pas suivant
    (input feeding), zéro au premier pas.
    """

    def __init__(self, vocab=60, canaux=32, emb=16, cache=40):
        super().__init__()
        self.plonge = nn.Embedding(vocab, emb)
        self.cellule = nn.LSTMCell(emb + cache, cache)
        self.W = nn.Linear(canaux, cache, bias=False)
        self.W_c = nn.Linear(canaux + cache, cache, bias=False)
        self.init_h = nn.Linear(canaux, cache)
        self.init_c = nn.Linear(canaux, cache)
        self.sortie = nn.Linear(cache, vocab)

    def forward(self, carte, cible):
        B, C, H, L = carte.shape
        grille = carte.permute(0, 2, 3, 1).reshape(B, H * L, C)
        cles = self.W(grille)                       # une seule fois pour tous les pas
        moyenne = grille.mean(1)
        s, c = torch.tanh(self.init_h(moyenne)), torch.tanh(self.init_c(moyenne))
        o = torch.zeros_like(s)

        logits, alphas = [], []
        for mot in self.plonge(cible).unbind(1):
            s, c = self.cellule(torch.cat((mot, o), 1), (s, c))
            score = torch.bmm(cles, s.unsqueeze(2)).squeeze(2)          # B x HL
            alpha = (score - score.logsumexp(1, keepdim=True)).exp()
            contexte = torch.bmm(alpha.unsqueeze(1), grille).squeeze(1)
            o = torch.tanh(self.W_c(torch.cat((contexte, s), 1)))
            logits.append(self.sortie(o))
            alphas.append(alpha.view(B, H, L))
        return torch.stack(logits, 1), torch.stack(alphas, 1)
