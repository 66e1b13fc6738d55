import torch
from torch import nn


class StoryQA(nn.Module):
    """End-to-end memory network (Sukhbaatar et al. 2015), adjacent tying.

    Inner products between question state and memories are taken as they are,
    as in the paper.
    """

    def __init__(self, vocab, dim=32, hops=3, slots=20):
        super().__init__()
        self.hops = hops
        # tab[i] is A of hop i, tab[i + 1] its C
        self.tab = nn.ModuleList(nn.Embedding(vocab, dim, padding_idx=0) for _ in range(hops + 1))
        self.when = nn.ParameterList(nn.Parameter(torch.randn(slots, dim) * 0.1) for _ in range(hops + 1))

    def bag(self, i, story):
        n = story.size(1)
        # youngest sentence has time index 0
        return self.tab[i](story).sum(2) + self.when[i][:n].flip(0)

    def forward(self, story, question):
        """story (B, M, W) ids, oldest sentence first, M <= slots; 0 pads words, and
        whole sentences of zeros fill short stories up at the front; question (B, W).
        Returns logits over the vocabulary (B, vocab)."""
        u = self.tab[0](question).sum(1)
        empty = (story == 0).all(dim=2)
        for i in range(self.hops):
            mem_in, mem_out = self.bag(i, story), self.bag(i + 1, story)
            match = torch.einsum("bd,bmd->bm", u, mem_in)
            match = match.masked_fill(empty, torch.finfo(match.dtype).min)
            p = torch.softmax(match, dim=1)
            u = u + torch.einsum("bm,bmd->bd", p, mem_out)
        return u @ self.tab[-1].weight.T
