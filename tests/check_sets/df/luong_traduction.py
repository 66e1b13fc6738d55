import torch
import torch.nn as nn


class DecodeurLuong(nn.Module):
    """Décodeur LSTM avec attention globale de Luong (score « general », h^T W hs) et input feeding.

    mot   (B,)        indices cibles
    etat  (h, c)      chacun (1, B, hid)
    vu    (B, hid)    vecteur attentionnel du pas précédent
    enc   (B, S, hid) sorties de l'encodeur
    longs (B,)        longueurs des sources (>= 1)
    """

    def __init__(self, vocab, emb=16, hid=24, p=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb + hid, hid, batch_first=True)
        self.Wa = nn.Linear(hid, hid, bias=False)
        self.Wc = nn.Linear(2 * hid, hid, bias=False)
        self.sortie = nn.Linear(hid, vocab)
        self.oubli = nn.Dropout(p)

    def forward(self, mot, etat, vu, enc, longs):
        x = torch.cat([self.oubli(self.emb(mot)), vu], dim=-1).unsqueeze(1)
        h, etat = self.lstm(x, etat)                       # (B, 1, hid)
        score = torch.bmm(self.Wa(h), enc.transpose(1, 2)).squeeze(1)
        hors = torch.arange(enc.size(1), device=enc.device)[None] >= longs[:, None]
        poids = score.masked_fill(hors, float("-inf")).softmax(dim=1)
        contexte = torch.bmm(poids.unsqueeze(1), enc)
        vu = torch.tanh(self.Wc(torch.cat([contexte, h], dim=-1))).squeeze(1)
        return self.sortie(self.oubli(vu)), etat, vu, poids
