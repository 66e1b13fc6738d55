# Bildbeschreibung: LSTM-Decoder mit weicher Aufmerksamkeit über die Regionen des CNN
import torch
import torch.nn as nn


class Aufmerksamkeit(nn.Module):
    def __init__(self, d_bild, d_zustand, d_inner):
        super().__init__()
        self.bild = nn.Linear(d_bild, d_inner)
        self.zustand = nn.Linear(d_zustand, d_inner)
        self.wert = nn.Linear(d_inner, 1)

    def forward(self, regionen, h):
        # regionen: (B, R, d_bild), h: (B, d_zustand)
        e = self.wert(torch.relu(self.bild(regionen) + self.zustand(h).unsqueeze(1))).squeeze(2)
        alpha = torch.softmax(e, dim=1)
        return (regionen * alpha.unsqueeze(2)).sum(dim=1), alpha


class Beschreiber(nn.Module):
    def __init__(self, woerter, d_bild=20, d_wort=12, d_zustand=16, d_inner=14, p=0.5):
        super().__init__()
        self.auf = Aufmerksamkeit(d_bild, d_zustand, d_inner)
        self.wort = nn.Embedding(woerter, d_wort)
        self.zelle = nn.LSTMCell(d_wort + d_bild, d_zustand)
        self.h0 = nn.Linear(d_bild, d_zustand)
        self.c0 = nn.Linear(d_bild, d_zustand)
        self.tor = nn.Linear(d_zustand, d_bild)
        self.drop = nn.Dropout(p)
        self.aus = nn.Linear(d_zustand, woerter)

    def forward(self, karte, texte, laengen):
        """karte (B, h, w, d_bild), texte (B, T) mit Start- und Endzeichen, laengen (B,) ohne das Endzeichen."""
        B = karte.size(0)
        regionen = karte.view(B, -1, karte.size(-1))
        mitte = regionen.mean(1)
        h, c = self.h0(mitte), self.c0(mitte)
        worte = self.wort(texte)

        T = int(laengen.max())
        logits = karte.new_zeros(B, T, self.aus.out_features)
        alphas = karte.new_zeros(B, T, regionen.size(1))
        for t in range(T):
            lebt = laengen > t
            kontext, alpha = self.auf(regionen, h)
            kontext = torch.sigmoid(self.tor(h)) * kontext
            h, c = self.zelle(torch.cat([worte[:, t], kontext], 1), (h, c))
            logits[:, t] = self.aus(self.drop(h)) * lebt[:, None]
            alphas[:, t] = alpha * lebt[:, None]
        return logits, alphas


if __name__ == "__main__":
    torch.manual_seed(3)
    modell = Beschreiber(30).eval()
    l, a = modell(torch.randn(3, 4, 4, 20), torch.randint(0, 30, (3, 7)), torch.tensor([6, 3, 5]))
    print(l.shape, a.sum(-1))
