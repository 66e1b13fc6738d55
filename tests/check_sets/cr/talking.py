import torch, torch.nn as nn


class TalkingHeads(nn.Module):
    # Shazeer et al. 2020, https://arxiv.org/abs/2003.02436, all head counts equal
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0
        self.h = heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.P_l = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.P_w = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))

    def forward(self, x, mem):
        '''x: b n dim, mem: b m dim'''
        b, n, D = x.shape
        m, d = mem.shape[1], D // self.h
        q = self.wq(x).view(b, n, self.h, d)
        k = self.wk(mem).view(b, m, self.h, d)
        v = self.wv(mem).view(b, m, self.h, d)
        J = torch.einsum('bnhd,bmhd->bnmh', q, k) / d ** .5
        L = J @ self.P_l          # mix logits across heads
        W = L.softmax(dim=2)      # over the m memory positions
        U = W @ self.P_w          # mix weights across heads
        o = torch.einsum('bnmh,bmhd->bnhd', U, v)
        return self.wo(o.reshape(b, n, D))
