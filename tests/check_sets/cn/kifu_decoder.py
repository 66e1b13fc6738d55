"""Kifu kaisetsu: shogi no kifu kara kaisetsubun wo tsukuru decoder.

(Commentary generator for shogi records.)  GRU decoder with the additive attention
of Bahdanau et al. (2015) over the encoded moves:

  chuui(h, te) : weights over the moves `te` given decoder state `h`
  te_kazu      : number of moves in every record [B], the rest is padding
"""
import torch
import torch.nn as nn


class Chuui(nn.Module):
    """Bahdanau attention. state [B, Hd], te [B, N, He] -> context [B, He], omomi [B, N]"""

    def __init__(self, joutai=32, te_dim=24, naka=28):
        super().__init__()
        self.W = nn.Linear(joutai, naka, bias=False)
        self.U = nn.Linear(te_dim, naka, bias=True)
        self.v = nn.Linear(naka, 1, bias=False)

    def forward(self, state, te, te_kazu):
        n = te.size(1)
        jun = self.W(state).unsqueeze(1) + self.U(te)
        tensuu = self.v(jun).squeeze(2)
        umeru = torch.arange(n, device=te.device).unsqueeze(0) >= te_kazu.unsqueeze(1)
        tensuu = tensuu.masked_fill(umeru, float("-inf"))
        omomi = torch.softmax(tensuu, dim=1)
        context = torch.bmm(omomi.unsqueeze(1), te).squeeze(1)
        return context, omomi


class KaisetsuDecoder(nn.Module):
    def __init__(self, goi=100, joutai=32, te_dim=24, emb=16):
        super().__init__()
        self.emb = nn.Embedding(goi, emb)
        self.chuui = Chuui(joutai, te_dim)
        self.gru = nn.GRUCell(emb + te_dim, joutai)
        self.hajime = nn.Linear(te_dim, joutai)
        self.out = nn.Linear(joutai + te_dim + emb, goi)

    def forward(self, kotoba, te, te_kazu):
        """kotoba long [B, T] (teacher forcing), te [B, N, te_dim], te_kazu long [B] >= 1
        -> logits [B, T, goi], omomi [B, T, N]"""
        h = torch.tanh(self.hajime(te[:, 0]))
        e = self.emb(kotoba)
        logits, omomi = [], []
        for t in range(kotoba.size(1)):
            c, w = self.chuui(h, te, te_kazu)
            h = self.gru(torch.cat([e[:, t], c], dim=1), h)
            logits.append(self.out(torch.cat([h, c, e[:, t]], dim=1)))
            omomi.append(w)
        return torch.stack(logits, dim=1), torch.stack(omomi, dim=1)


if __name__ == "__main__":
    d = KaisetsuDecoder()
    lg, w = d(torch.randint(0, 100, (2, 5)), torch.randn(2, 9, 24), torch.tensor([9, 4]))
    print(lg.shape, w.sum(-1))
