"""See, Liu & Manning (2017) style summariser step, rewritten for court decisions."""
import torch
from torch import nn


class CoverageAttn(nn.Module):
    """e_i = v^T tanh(W_h h_i + W_s s_t + w_c c_i + b);  a = softmax over source words.

    c (coverage) is the sum of the attention of all *earlier* steps.
    enc_mask: float, 1.0 for a word and 0.0 for padding.
    """

    def __init__(self, hid):
        super().__init__()
        self.W_h = nn.Linear(2 * hid, 2 * hid, bias=False)
        self.W_s = nn.Linear(2 * hid, 2 * hid)
        self.w_c = nn.Linear(1, 2 * hid, bias=False)
        self.v = nn.Linear(2 * hid, 1, bias=False)

    def forward(self, s_t, enc, enc_mask, cov):
        f = self.W_h(enc) + self.W_s(s_t).unsqueeze(1) + self.w_c(cov.unsqueeze(-1))
        e = self.v(torch.tanh(f)).squeeze(-1)
        a_ = torch.softmax(e, dim=1) * enc_mask
        a = a_ / a_.sum(1, keepdim=True)
        ctx = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        cov_loss = torch.minimum(a, cov).sum(1)
        return ctx, a, cov + a, cov_loss


class SummaryStep(nn.Module):
    def __init__(self, vocab, emb=16, hid=12):
        super().__init__()
        self.hid = hid
        self.E = nn.Embedding(vocab, emb)
        self.x_ctx = nn.Linear(emb + 2 * hid, emb)
        self.cell = nn.LSTMCell(emb, hid)
        self.attn = CoverageAttn(hid)
        self.p_gen = nn.Linear(4 * hid + emb, 1)
        self.out = nn.Linear(3 * hid, vocab)

    def forward(self, y, state, ctx, enc, enc_mask, src_ext, n_oov, cov):
        x = self.x_ctx(torch.cat([self.E(y), ctx], 1))
        h, c = self.cell(x, state)
        s_hat = torch.cat([h, c], 1)
        ctx, a, cov, cl = self.attn(s_hat, enc, enc_mask, cov)
        p = torch.sigmoid(self.p_gen(torch.cat([ctx, s_hat, x], 1)))
        vocab_dist = torch.softmax(self.out(torch.cat([h, ctx], 1)), 1) * p
        extra = vocab_dist.new_zeros(y.size(0), n_oov)
        final = torch.cat([vocab_dist, extra], 1).scatter_add(1, src_ext, a * (1 - p))
        return final, (h, c), ctx, cov, cl
