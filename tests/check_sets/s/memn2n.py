# End-To-End Memory Networks (Sukhbaatar 2015), adjacent weight tying, bAbI
import torch
import torch.nn as nn


def position_encoding(J, d):
    j = torch.arange(1, J + 1).float()[:, None]
    k = torch.arange(1, d + 1).float()[None]
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)


class MemN2N(nn.Module):
    """p_i = softmax(u . m_i): the paper has a plain inner product, no temperature."""

    def __init__(self, vocab, d=20, hops=3, sent_len=6, max_mem=50):
        super().__init__()
        self.hops = hops
        self.emb = nn.ModuleList(nn.Embedding(vocab, d, padding_idx=0) for _ in range(hops + 1))
        self.time = nn.ParameterList(nn.Parameter(torch.randn(max_mem, d) * 0.1) for _ in range(hops + 1))
        self.register_buffer("pe", position_encoding(sent_len, d))

    def forward(self, story, question):
        """story (B, M, J) word ids, 0 is padding; unused slots are all 0.
        question (B, J). Returns logits over the vocabulary and the weights of every hop."""
        M = story.shape[1]
        empty = (story == 0).all(-1)
        u = (self.emb[0](question) * self.pe).sum(1)
        trace = []
        for t in range(self.hops):
            m = (self.emb[t](story) * self.pe).sum(2) + self.time[t][:M]
            c = (self.emb[t + 1](story) * self.pe).sum(2) + self.time[t + 1][:M]
            p = torch.einsum("bd,bmd->bm", u, m)
            p = torch.where(empty, torch.full_like(p, -torch.inf), p).softmax(1)
            u = u + torch.einsum("bm,bmd->bd", p, c)
            trace.append(p)
        return u @ self.emb[-1].weight.T, trace
