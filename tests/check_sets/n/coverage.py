import torch
import torch.nn as nn


class CoverageAttention(nn.Module):
    """Attention of the pointer-generator network (See et al. 2017).

    s_t (B, 2H) decoder state, enc (B, S, 2H), mask (B, S) float with 1 for words, coverage (B, S).
    e_i = v^T tanh(W_h h_i + W_s s_t + w_c c_i + b);  a = softmax over the words;  c <- c + a
    """

    def __init__(self, hidden):
        super().__init__()
        n = 2 * hidden
        self.W_h = nn.Linear(n, n, bias=False)
        self.W_s = nn.Linear(n, n)
        self.w_c = nn.Linear(1, n, bias=False)
        self.v = nn.Linear(n, 1, bias=False)

    def forward(self, s_t, enc, mask, coverage):
        feats = self.W_h(enc) + self.W_s(s_t).unsqueeze(1) + self.w_c(coverage.unsqueeze(-1))
        scores = self.v(torch.tanh(feats)).squeeze(-1)
        dist = torch.softmax(scores, dim=1) * mask
        dist = dist / dist.sum(1, keepdim=True)
        context = torch.bmm(dist.unsqueeze(1), enc).squeeze(1)
        return context, dist, coverage + dist
