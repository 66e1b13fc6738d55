"""Caption decoder with global attention (Luong et al. 2015, 'general' score, input feeding)."""
import torch
from torch import nn


class LuongStep(nn.Module):
    """One step: h_t = LSTM([y, h~_{t-1}]); a_t = softmax(h_t W_a s); c_t = sum a_t s;
    attentional vector h~_t = tanh(W_c [c_t ; h_t]).

    regions [B, R, D] are image region features, n_regions [B] how many of them are real (>= 1).
    """

    def __init__(self, emb, hidden, region_dim):
        super().__init__()
        self.cell = nn.LSTMCell(emb + hidden, hidden)
        self.W_a = nn.Linear(region_dim, hidden, bias=False)
        self.W_c = nn.Linear(region_dim + hidden, hidden, bias=False)

    def forward(self, y, state, feed, regions, n_regions):
        h, c = self.cell(torch.cat([y, feed], dim=1), state)
        score = torch.bmm(self.W_a(regions), h.unsqueeze(2)).squeeze(2)
        real = torch.arange(regions.size(1), device=y.device) < n_regions[:, None]
        a = score.masked_fill(~real, -float("inf")).softmax(1)
        ctx = (a.unsqueeze(2) * regions).sum(1)
        h_tilde = self.W_c(torch.cat([ctx, h], dim=1))
        return h_tilde, (h, c), a


class Captioner(nn.Module):
    def __init__(self, vocab, emb=32, hidden=48, region_dim=40):
        super().__init__()
        self.words = nn.Embedding(vocab, emb, padding_idx=0)
        self.step = LuongStep(emb, hidden, region_dim)
        self.init_h = nn.Linear(region_dim, hidden)
        self.init_c = nn.Linear(region_dim, hidden)
        self.out = nn.Linear(hidden, vocab)
        self.hidden = hidden

    def start(self, regions, n):
        real = (torch.arange(regions.size(1)) < n[:, None]).unsqueeze(2)
        mean = (regions * real).sum(1) / n[:, None]
        return (torch.tanh(self.init_h(mean)), torch.tanh(self.init_c(mean)))

    def forward(self, tokens, regions, n):
        state = self.start(regions, n)
        feed = regions.new_zeros(regions.size(0), self.hidden)
        logits = []
        for t in range(tokens.size(1)):
            feed, state, _ = self.step(self.words(tokens[:, t]), state, feed, regions, n)
            logits.append(self.out(feed))
        return torch.stack(logits, 1)
