import torch
import torch.nn as nn


class CoverageAttention(nn.Module):
    """Attention of the pointer-generator (See et al. 2017), one decoder step.

    s_t: B x H decoder state; enc: B x T x H; enc_mask: B x T, 1 for words and 0 for padding;
    coverage: B x T, the sum of the distributions so far.
    Returns context (B x H), the distribution (B x T) and the new coverage (B x T).

    The softmax is taken over everything and the padding cut out afterwards; dividing by what is left makes it the
    same as masking first.
    """

    def __init__(self, hidden=8):
        super().__init__()
        self.W_h = nn.Linear(hidden, hidden, bias=False)
        self.W_s = nn.Linear(hidden, hidden)
        self.W_c = nn.Linear(1, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, s_t, enc, enc_mask, coverage):
        feats = self.W_h(enc) + self.W_s(s_t).unsqueeze(1) + self.W_c(coverage.unsqueeze(2))
        e = self.v(torch.tanh(feats)).squeeze(2)

        a = torch.softmax(e, dim=1) * enc_mask
        a = a / a.sum(1, keepdim=True)

        context = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        return context, a, coverage + a
