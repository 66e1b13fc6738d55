"""End-to-end memory network for the bAbI stories (Sukhbaatar et al. 2015).

As in the paper the match is a plain inner product u.m_i, with no scaling.
Adjacent weight tying: A_{k+1} = C_k, B = A_1, W^T = C_K.
"""
import torch
import torch.nn as nn


def position_encoding(sentence_size, dim):
    j = torch.arange(1, sentence_size + 1).float()[:, None]
    k = torch.arange(1, dim + 1).float()[None]
    return (1 - j / sentence_size) - (k / dim) * (1 - 2 * j / sentence_size)


class MemN2N(nn.Module):
    def __init__(self, vocab, dim, sentence_size, memory_size, hops=3, linear_start=False):
        super().__init__()
        self.hops = hops
        self.linear_start = linear_start
        self.memory_size = memory_size
        self.C = nn.ModuleList(nn.Embedding(vocab, dim, padding_idx=0) for _ in range(hops + 1))
        self.T = nn.ParameterList(nn.Parameter(torch.randn(memory_size, dim) * 0.1) for _ in range(hops + 1))
        for e in self.C:
            nn.init.normal_(e.weight, 0, 0.1)
            with torch.no_grad():
                e.weight[0].zero_()
        self.register_buffer("pe", position_encoding(sentence_size, dim), persistent=False)

    def _memory(self, level, story):
        m = (self.C[level](story) * self.pe).sum(2)
        return m + self.T[level][: story.shape[1]]

    def forward(self, story, query):
        """story [B, M, S] and query [B, S] hold word ids, 0 is padding; a sentence of
        only zeros is an empty slot of the memory. Returns logits over the vocabulary."""
        u = (self.C[0](query) * self.pe).sum(1)
        empty = story.eq(0).all(dim=2)
        for hop in range(self.hops):
            m = self._memory(hop, story)
            c = self._memory(hop + 1, story)
            match = torch.einsum("bd,bmd->bm", u, m)
            if self.linear_start:
                p = match.masked_fill(empty, 0.0)
            else:
                p = torch.softmax(match.masked_fill(empty, torch.finfo(match.dtype).min), dim=1)
            o = torch.einsum("bm,bmd->bd", p, c)
            u = u + o
        return u @ self.C[self.hops].weight.T


def vectorize(stories, word_index, sentence_size, memory_size):
    out = torch.zeros(len(stories), memory_size, sentence_size, dtype=torch.long)
    for b, story in enumerate(stories):
        for i, sent in enumerate(story[-memory_size:]):
            for j, w in enumerate(sent[:sentence_size]):
                out[b, i, j] = word_index[w]
    return out
