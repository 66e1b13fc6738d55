"""Décodeur GRU avec attention additive (Bahdanau et al., 2015).

Mini-projet de TAL, M2 : traduction français -> breton sur un petit corpus.
Ce fichier ne contient que l'étape de décodage : énergies, contexte, nouvel
état caché, logits sur le vocabulaire cible. L'encodeur bi-GRU est ailleurs.

Convention : masque[b, s] = 1 pour un vrai mot, 0 pour le remplissage.
"""
import torch
import torch.nn as nn


class AttentionAdditive(nn.Module):
    """e_s = v^T tanh(W h + U m_s), puis softmax sur s."""

    def __init__(self, dim_enc, dim_dec, dim_att):
        super().__init__()
        self.W = nn.Linear(dim_dec, dim_att, bias=False)
        self.U = nn.Linear(dim_enc, dim_att)
        self.v = nn.Linear(dim_att, 1, bias=False)

    def projeter(self, memoire):
        # calculé une seule fois par phrase source
        return self.U(memoire)

    def forward(self, etat, memoire, memoire_proj, masque):
        requete = self.W(etat).unsqueeze(1)                    # (B, 1, A)
        energie = self.v(torch.tanh(requete + memoire_proj))   # (B, S, 1)
        energie = energie.squeeze(-1)
        energie = energie.masked_fill(masque == 0, float("-inf"))
        alpha = torch.softmax(energie, dim=-1)
        contexte = torch.bmm(alpha.unsqueeze(1), memoire).squeeze(1)
        return contexte, alpha


class EtapeDecodeur(nn.Module):
    def __init__(self, vocab, dim_mot=32, dim_enc=48, dim_dec=40, dim_att=24):
        super().__init__()
        self.plongement = nn.Embedding(vocab, dim_mot, padding_idx=0)
        self.attention = AttentionAdditive(dim_enc, dim_dec, dim_att)
        self.cellule = nn.GRUCell(dim_mot + dim_enc, dim_dec)
        # « maxout » de l'article remplacé par une simple couche linéaire
        self.sortie = nn.Linear(dim_dec + dim_enc + dim_mot, vocab)
        self.init_etat = nn.Linear(dim_enc, dim_dec)

    def etat_initial(self, memoire, masque):
        """Moyenne des annotations réelles, projetée puis tanh."""
        m = masque.unsqueeze(-1).to(memoire.dtype)
        moyenne = (memoire * m).sum(1) / m.sum(1).clamp(min=1)
        return torch.tanh(self.init_etat(moyenne))

    def forward(self, mot, etat, memoire, masque, memoire_proj=None):
        """mot (B,), etat (B, D), memoire (B, S, E), masque (B, S).

        Renvoie logits (B, V), nouvel état (B, D), alpha (B, S).
        Le contexte est calculé avec l'état *précédent*, comme dans l'article.
        """
        if memoire_proj is None:
            memoire_proj = self.attention.projeter(memoire)
        x = self.plongement(mot)
        contexte, alpha = self.attention(etat, memoire, memoire_proj, masque)
        etat = self.cellule(torch.cat([x, contexte], dim=-1), etat)
        logits = self.sortie(torch.cat([etat, contexte, x], dim=-1))
        return logits, etat, alpha


def traduire(etape, memoire, masque, debut=1, fin=2, longueur_max=30):
    """Décodage glouton d'un lot ; s'arrête quand toutes les phrases ont fini."""
    B = memoire.size(0)
    etat = etape.etat_initial(memoire, masque)
    proj = etape.attention.projeter(memoire)
    mot = torch.full((B,), debut, dtype=torch.long)
    fini = torch.zeros(B, dtype=torch.bool)
    phrases = []
    for _ in range(longueur_max):
        logits, etat, _ = etape(mot, etat, memoire, masque, proj)
        mot = logits.argmax(-1).masked_fill(fini, 0)
        phrases.append(mot)
        fini = fini | (mot == fin)
        if bool(fini.all()):
            break
    return torch.stack(phrases, dim=1)
