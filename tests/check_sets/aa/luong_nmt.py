"""Input-feeding decoder with global attention (Luong et al., 2015).

Per step:
    h_t  = LSTM([y_{t-1}; h~_{t-1}])
    a_t  = softmax(h_t^T W_a hbar_s)                 ("general" score)
    c_t  = sum_s a_t(s) hbar_s
    h~_t = tanh(W_c [c_t; h_t])                      (eq. 5)
    p(y) = softmax(W_s h~_t)
"""
import torch
import torch.nn as nn


class GlobalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.W_a = nn.Linear(dim, dim, bias=False)
        self.W_c = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, h_t, memory, pad):
        """h_t [B, D], memory [B, S, D], pad [B, S] True at padding."""
        score = torch.bmm(memory, self.W_a(h_t).unsqueeze(2)).squeeze(2)
        score = score.masked_fill(pad, -float("inf"))
        align = score.softmax(dim=1)
        context = torch.bmm(align.unsqueeze(1), memory).squeeze(1)
        attn_h = self.W_c(torch.cat([context, h_t], dim=-1))
        return attn_h, align


class LuongDecoder(nn.Module):
    def __init__(self, vocab=40, emb=16, dim=24):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + dim, dim)
        self.attn = GlobalAttention(dim)
        self.W_s = nn.Linear(dim, vocab)

    def init_state(self, memory):
        z = memory.new_zeros(memory.size(0), self.dim)
        return memory.mean(1).tanh(), z, z

    def forward(self, targets, memory, lengths):
        """Teacher forcing.

        targets [B, T] token ids, memory [B, S, D] encoder states,
        lengths [B] source lengths.  Returns logits [B, T, V], alignments [B, T, S].
        """
        pad = torch.arange(memory.size(1), device=memory.device)[None] >= lengths[:, None]
        h, c, feed = self.init_state(memory)
        logits, aligns = [], []
        for y in self.embed(targets).unbind(1):
            h, c = self.cell(torch.cat([y, feed], dim=-1), (h, c))
            feed, align = self.attn(h, memory, pad)
            logits.append(self.W_s(feed))
            aligns.append(align)
        return torch.stack(logits, 1), torch.stack(aligns, 1)
