# Pointer network for the TSP, trained with REINFORCE (Bello et al. 2016)
import math

import torch
import torch.nn as nn


class Attention(nn.Module):
    """ u_j = v^T tanh(W_ref r_j + W_q q);  logits = C * tanh(u) if use_tanh else u """

    def __init__(self, dim, use_tanh=False, C=10):
        super(Attention, self).__init__()
        self.use_tanh = use_tanh
        self.C = C
        self.project_query = nn.Linear(dim, dim)
        self.project_ref = nn.Conv1d(dim, dim, 1, 1)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-1 / math.sqrt(dim), 1 / math.sqrt(dim)))

    def forward(self, query, ref):
        """
        query: hidden state of the decoder, batch x dim
        ref:   hidden states of the encoder, sourceL x batch x dim
        -> projected refs (batch x dim x sourceL), logits (batch x sourceL)
        """
        ref = ref.permute(1, 2, 0)
        q = self.project_query(query).unsqueeze(2)          # batch x dim x 1
        e = self.project_ref(ref)                           # batch x dim x sourceL
        u = torch.einsum('d,bds->bs', self.v, torch.tanh(q + e))
        logits = self.C * torch.tanh(u) if self.use_tanh else u
        return e, logits


class PointerDecoder(nn.Module):
    """Decodes a tour greedily or by sampling; a city that is in the tour cannot come again.

    A glimpse is the attention-weighted mean of the *projected* refs and becomes the next query.
    """

    def __init__(self, dim, n_glimpses=1, tanh_exploration=10):
        super(PointerDecoder, self).__init__()
        self.n_glimpses = n_glimpses
        self.lstm = nn.LSTMCell(dim, dim)
        self.pointer = Attention(dim, use_tanh=True, C=tanh_exploration)
        self.glimpse = Attention(dim, use_tanh=False)
        self.start = nn.Parameter(torch.randn(dim) / dim)

    def apply_mask(self, logits, mask, prev_idxs):
        """mask: True for visited cities"""
        if mask is None:
            mask = torch.zeros_like(logits, dtype=torch.bool)
        mask = mask.clone()
        if prev_idxs is not None:
            mask.scatter_(1, prev_idxs.unsqueeze(1), True)
        return logits.masked_fill(mask, -float('inf')), mask

    def step(self, x, hidden, mask, prev_idxs, context):
        h, c = self.lstm(x, hidden)
        g = h
        for _ in range(self.n_glimpses):
            ref, logits = self.glimpse(g, context)
            logits, _ = self.apply_mask(logits, mask, prev_idxs)
            # ref: batch x dim x sourceL
            g = torch.bmm(ref, torch.softmax(logits, dim=1).unsqueeze(2)).squeeze(2)
        _, logits = self.pointer(g, context)
        logits, mask = self.apply_mask(logits, mask, prev_idxs)
        return (h, c), torch.log_softmax(logits, dim=1), mask

    def forward(self, emb, context, hidden, greedy=True):
        """emb, context: sourceL x batch x dim.  -> tours (batch, L), log-probs (batch, L, L)"""
        L, B, _ = emb.shape
        x = self.start.expand(B, -1)
        mask, idx = None, None
        tours, logps = [], []
        for _ in range(L):
            hidden, logp, mask = self.step(x, hidden, mask, idx, context)
            idx = logp.argmax(1) if greedy else torch.multinomial(logp.exp(), 1).squeeze(1)
            x = emb[idx, torch.arange(B)]
            tours.append(idx)
            logps.append(logp)
        return torch.stack(tours, 1), torch.stack(logps, 1)


def tour_length(xy, tour):
    d = xy.gather(1, tour.unsqueeze(-1).expand_as(xy))
    return (d - d.roll(-1, 1)).norm(dim=2).sum(1)


if __name__ == '__main__':
    torch.manual_seed(0)
    B, L, dim = 3, 7, 16
    xy = torch.rand(B, L, 2)
    emb = nn.Linear(2, dim)(xy).transpose(0, 1)
    enc, hc = nn.LSTM(dim, dim)(emb)
    tours, _ = PointerDecoder(dim)(emb, enc, (hc[0][0], hc[1][0]))
    print(tours, tour_length(xy, tours))
