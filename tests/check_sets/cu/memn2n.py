import torch
from torch import nn


class MemN2N(nn.Module):
    """End-to-end memory network, adjacent weight tying: A(k+1) = C(k), B = A(1), W = C(K).

    story    (B, M, S) word ids, 0 pads words; an all-zero sentence is an empty slot
    question (B, S)
    returns  logits (B, V) and a list of K match vectors p (B, M)

    Match is softmax(u . m_i) as in Sukhbaatar et al., i.e. plain dot product, unscaled.
    """

    def __init__(self, V=40, d=20, hops=3, mem=10):
        super().__init__()
        self.E = nn.ModuleList(nn.Embedding(V, d, padding_idx=0) for _ in range(hops + 1))
        self.T = nn.ParameterList(nn.Parameter(0.1 * torch.randn(mem, d)) for _ in range(hops + 1))
        for e in self.E:
            nn.init.normal_(e.weight, 0, 0.1)
            with torch.no_grad():
                e.weight[0].zero_()

    @staticmethod
    def pe(J, d, ref):
        # l_kj = (1 - j/J) - (k/d)(1 - 2j/J), both from 1
        j = torch.arange(1, J + 1).to(ref)[:, None] / J
        k = torch.arange(1, d + 1).to(ref)[None] / d
        return (1 - j) - k * (1 - 2 * j)

    def forward(self, story, question):
        l = self.pe(story.size(-1), self.E[0].embedding_dim, self.E[0].weight)
        u = (self.E[0](question) * l).sum(1)
        empty = story.eq(0).all(-1)
        M = story.size(1)
        ps = []
        for k in range(len(self.E) - 1):
            m = (self.E[k](story) * l).sum(2) + self.T[k][:M]
            c = (self.E[k + 1](story) * l).sum(2) + self.T[k + 1][:M]
            s = torch.matmul(m, u.unsqueeze(-1)).squeeze(-1)
            p = s.masked_fill(empty, torch.finfo(s.dtype).min).softmax(1)
            u = u + torch.matmul(p.unsqueeze(1), c).squeeze(1)
            ps.append(p)
        return u @ self.E[-1].weight.t(), ps
