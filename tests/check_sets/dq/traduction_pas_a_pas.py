"""Tutoriel : traduire du français vers l'anglais, pas à pas (partie 3, l'attention).

À chaque mot produit, le décodeur compare son état caché à CHACUN des états de
l'encodeur ; plus un état source ressemble à ce que l'on cherche, plus il pèse.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DecodeurAttention(nn.Module):
    """Un pas du décodeur.

    mot     (B,)       indice du mot précédent
    etat    (B, n)     état caché du GRU
    source  (B, S, n)  états de l'encodeur, S <= longueur_max
    vrai    (B, S)     bool, True = mot réel, False = remplissage (poids nul) ; au moins
                       un True par ligne
    Renvoie (logits (B, vocab), nouvel état (B, n), poids (B, S)). Le poids du mot j est
    une mesure de l'accord entre l'état du décodeur et source[:, j] (attention par le
    contenu : permuter les mots source permute les poids de la même façon). Les poids
    d'une ligne somment à 1.
    """

    def __init__(self, vocab, n=24, longueur_max=20):
        super().__init__()
        self.plonge = nn.Embedding(vocab, n)
        self.attn = nn.Linear(2 * n, longueur_max)
        self.combine = nn.Linear(2 * n, n)
        self.gru = nn.GRUCell(n, n)
        self.sortie = nn.Linear(n, vocab)

    def forward(self, mot, etat, source, vrai):
        S = source.shape[1]
        x = self.plonge(mot)

        scores = self.attn(torch.cat((x, etat), dim=1))[:, :S]
        scores = scores.masked_fill(~vrai, float("-inf"))
        poids = F.softmax(scores, dim=1)

        contexte = torch.bmm(poids.unsqueeze(1), source).squeeze(1)
        entree = F.relu(self.combine(torch.cat((x, contexte), dim=1)))
        etat = self.gru(entree, etat)
        return self.sortie(etat), etat, poids


def traduire(decodeur, source, vrai, etat, debut=1, pas=5):
    """Décodage glouton : (B, pas) indices."""
    mot = torch.full((source.shape[0],), debut, dtype=torch.long)
    suite = []
    for _ in range(pas):
        logits, etat, _ = decodeur(mot, etat, source, vrai)
        mot = logits.argmax(dim=1)
        suite.append(mot)
    return torch.stack(suite, dim=1)
