import torch
import torch.nn as nn


class Perevodchik(nn.Module):
    """LSTM-dekoder s additivnym vnimaniem i pokrytiem (coverage).

    e_j = v^T tanh(W s + U h_j + c * cov_j),  cov_j = summa proshlyh vesov.
    istochnik (B, S, enc), dliny (B,) >= 1, cel (B, T) tokeny.
    Vozvrat: logity (B, T, slovar) i vesa (B, T, S); ves na zapolnenii raven 0.
    """

    def __init__(self, slovar, emb=16, enc=24, dec=20, att=18):
        super().__init__()
        self.dec = dec
        self.emb = nn.Embedding(slovar, emb)
        self.yacheika = nn.LSTMCell(emb + enc, dec)
        self.W = nn.Linear(dec, att)
        self.U = nn.Linear(enc, att, bias=False)
        self.c = nn.Linear(1, att, bias=False)
        self.v = nn.Linear(att, 1, bias=False)
        self.vyhod = nn.Linear(dec + enc + emb, slovar)

    def forward(self, istochnik, dliny, cel):
        B, S, _ = istochnik.shape
        pusto = torch.arange(S, device=istochnik.device)[None] >= dliny[:, None]
        klyuchi = self.U(istochnik)
        s = istochnik.new_zeros(B, self.dec)
        yach = istochnik.new_zeros(B, self.dec)
        cov = istochnik.new_zeros(B, S)
        logity, vesa = [], []
        for t in range(cel.shape[1]):
            x = self.emb(cel[:, t])
            energiya = self.v(torch.tanh(self.W(s)[:, None] + klyuchi + self.c(cov[..., None]))).squeeze(-1)
            a = torch.softmax(energiya.masked_fill(pusto, float("-inf")), dim=-1)
            kontekst = torch.bmm(a[:, None], istochnik).squeeze(1)
            cov = cov + a
            s, yach = self.yacheika(torch.cat([x, kontekst], -1), (s, yach))
            logity.append(self.vyhod(torch.cat([s, kontekst, x], -1)))
            vesa.append(a)
        return torch.stack(logity, 1), torch.stack(vesa, 1)
