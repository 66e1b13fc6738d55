import torch, torch.nn as nn
from torch import einsum


class TalkingHeads(nn.Module):
    # Shazeer et al 2020: heads are mixed before and after the softmax
    def __init__(self, d_x, d_m, h_k, h, h_v, d_k, d_v):
        super().__init__()
        s = lambda *n: nn.Parameter(torch.randn(*n) / n[0] ** .5)
        self.P_q, self.P_k = s(d_x, d_k, h_k), s(d_m, d_k, h_k)
        self.P_v, self.P_o = s(d_m, d_v, h_v), nn.Parameter(torch.randn(d_x, d_v, h_v) / (d_v * h_v) ** .5)
        self.P_l = s(h_k, h)
        self.P_w = s(h, h_v)
        self.d_k = d_k

    def forward(self, X, M, keep=None):
        Q = einsum("bnx,xdh->bndh", X, self.P_q)
        K = einsum("bmx,xdh->bmdh", M, self.P_k)
        V = einsum("bmx,xdh->bmdh", M, self.P_v)
        J = einsum("bndh,bmdh->bnmh", Q, K) / self.d_k ** .5
        L = einsum("bnmh,hl->bnml", J, self.P_l)
        if keep is not None:
            L = L.masked_fill(~keep[:, None, :, None], float("-inf"))
        W = L.softmax(2)
        U = einsum("bnml,lh->bnmh", W, self.P_w)
        O = einsum("bnmh,bmdh->bndh", U, V)
        return einsum("bndh,xdh->bnx", O, self.P_o)


class Reader(nn.Module):
    def __init__(self, vocab=40, d=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.att = TalkingHeads(d, d, 3, 4, 2, 8, 12)
        self.norm = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, question, passage, passage_keep=None):
        q, p = self.emb(question), self.emb(passage)
        q = self.norm(q + self.att(q, p, passage_keep))
        return q + self.mlp(q)


if __name__ == "__main__":
    torch.manual_seed(0)
    keep = torch.ones(2, 9, dtype=torch.bool)
    keep[0, 5:] = False
    print(Reader()(torch.randint(40, (2, 4)), torch.randint(40, (2, 9)), keep).shape)
