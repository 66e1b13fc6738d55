# Tutorial 7: a decoder step with Luong's "general" score
import torch
import torch.nn as nn


class LuongStep(nn.Module):
    def __init__(self, vocab=20, emb=8, hidden=12, enc=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        # input feeding: the last attentional vector goes in with the word
        self.cell = nn.LSTMCell(emb + hidden, hidden)
        self.Wa = nn.Linear(enc, hidden, bias=False)
        self.Wc = nn.Linear(enc + hidden, hidden, bias=False)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, word, state, feed, memory, src_mask):
        """word (B,), feed (B, hidden), memory (B, S, enc)
        src_mask (B, S): True where there is a real source word (at least one per row)"""
        h, c = self.cell(torch.cat([self.embed(word), feed], dim=-1), state)

        # score(h, m) = h^T Wa m
        score = torch.einsum("bh,bsh->bs", h, self.Wa(memory))
        score = score.masked_fill(~src_mask, float("-inf"))
        align = score.softmax(dim=-1)

        # weighted sum of the source
        context = (align.unsqueeze(-1) * memory).sum(dim=1)
        h_tilde = torch.tanh(self.Wc(torch.cat([context, h], dim=-1)))
        return self.out(h_tilde), (h, c), h_tilde, align
