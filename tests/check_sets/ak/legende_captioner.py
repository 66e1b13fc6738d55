"""Légendes d'images : encodeur de grille, décodeur LSTM avec attention (Xu et al., 2015)."""
import torch
from torch import nn


class Grille(nn.Module):
    """Petit réseau à convolutions ; rend [B, cases, canaux]."""

    def __init__(self, canaux=64, cote=7):
        super().__init__()
        self.corps = nn.Sequential(
            nn.Conv2d(3, canaux // 2, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(canaux // 2, canaux, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(cote))

    def forward(self, images):
        return self.corps(images).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Attention additive sur les cases de l'image.

    :param encoder_dim: taille d'une case
    :param decoder_dim: taille de l'état du décodeur
    :param attention_dim: taille de la couche cachée
    """

    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super(Attention, self).__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, encoder_out, decoder_hidden):
        """encoder_out [B, cases, encoder_dim], decoder_hidden [B, decoder_dim]"""
        att1 = self.encoder_att(encoder_out)                        # [B, cases, attention_dim]
        att2 = self.decoder_att(decoder_hidden)                     # [B, attention_dim]
        att = self.full_att(att1 + att2.unsqueeze(1)).squeeze(2)    # [B, cases]
        alpha = self.softmax(att)
        contexte = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
        return contexte, alpha


class Decodeur(nn.Module):
    def __init__(self, vocab, encoder_dim=64, embed_dim=32, decoder_dim=48, attention_dim=40,
                 dropout=0.5):
        super().__init__()
        self.vocab = vocab
        self.attention = Attention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.cellule = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.f_beta = nn.Linear(decoder_dim, encoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab)

    def etat_initial(self, encoder_out):
        m = encoder_out.mean(dim=1)
        return self.init_h(m), self.init_c(m)

    def pas(self, mots, encoder_out, h, c):
        contexte, alpha = self.attention(encoder_out, h)
        contexte = torch.sigmoid(self.f_beta(h)) * contexte
        h, c = self.cellule(torch.cat([self.embedding(mots), contexte], dim=1), (h, c))
        return self.fc(self.dropout(h)), alpha, h, c

    def forward(self, encoder_out, legendes, longueurs):
        """legendes [B, T] avec <debut> et <fin> ; longueurs triées, de la plus longue à la plus courte."""
        h, c = self.etat_initial(encoder_out)
        pas = [n - 1 for n in longueurs]
        B, T = legendes.size(0), max(pas)
        preds = encoder_out.new_zeros(B, T, self.vocab)
        alphas = encoder_out.new_zeros(B, T, encoder_out.size(1))
        for t in range(T):
            n = sum(p > t for p in pas)
            y, a, h, c = self.pas(legendes[:n, t], encoder_out[:n], h[:n], c[:n])
            preds[:n, t], alphas[:n, t] = y, a
        return preds, alphas

    @torch.no_grad()
    def faisceau(self, encoder_out, debut, fin, k=3, t_max=20):
        """Recherche en faisceau pour une seule image [1, cases, canaux]."""
        cases = encoder_out.expand(k, -1, -1)
        h, c = self.etat_initial(cases)
        suites = torch.full((k, 1), debut, dtype=torch.long)
        notes = torch.full((k, 1), -1e9)
        notes[0] = 0.0
        finies = []
        for _ in range(t_max):
            y, _, h, c = self.pas(suites[:, -1], cases, h, c)
            total = (notes + torch.log_softmax(y, 1)).view(-1)
            notes, idx = total.topk(k)
            d_ou, mot = idx // self.vocab, idx % self.vocab
            suites = torch.cat([suites[d_ou], mot[:, None]], dim=1)
            h, c, notes = h[d_ou], c[d_ou], notes[:, None]
            for i in (mot == fin).nonzero().flatten().tolist():
                finies.append((notes[i].item(), suites[i].tolist()))
                notes[i] = -1e9
        return max(finies)[1] if finies else suites[0].tolist()


def regularisation(alphas):
    """Chaque case doit recevoir à peu près la même attention sur la phrase entière."""
    return ((1.0 - alphas.sum(dim=1)) ** 2).mean()


if __name__ == "__main__":
    g = Grille()(torch.randn(1, 3, 56, 56))
    print(Decodeur(30).eval().faisceau(g, 1, 2))
