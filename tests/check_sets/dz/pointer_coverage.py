"""Attention with coverage for a pointer-generator summariser (See et al. 2017), one decoder step.

    s_t       (B, Hd)      decoder state (LSTM c and h concatenated)
    enc       (B, L, He)   encoder outputs
    enc_mask  (B, L)       float, 1. = article word, 0. = padding
    cov       (B, L)       sum of the attention distributions of all earlier steps (zeros at first)
    ext_ids   (B, L) long  article words in the extended vocabulary
    gen_in    (B, Dg)      input of the vocabulary softmax besides the context

Returns (log-probabilities over the extended vocabulary (B, V + extra), attention (B, L), new coverage,
coverage loss (B,)).  The attention is a distribution over the article words alone.
"""
import torch
from torch import nn


class CoverageStep(nn.Module):
    def __init__(self, hd, he, dg, vocab, extra):
        super().__init__()
        self.extra = extra
        self.W_h = nn.Linear(he, he, bias=False)
        self.W_s = nn.Linear(hd, he)
        self.w_c = nn.Linear(1, he, bias=False)
        self.v = nn.Linear(he, 1, bias=False)
        self.vocab = nn.Linear(he + dg, vocab)
        self.p_gen = nn.Linear(he + dg + hd, 1)

    def forward(self, s_t, enc, enc_mask, cov, ext_ids, gen_in):
        feats = self.W_h(enc) + self.W_s(s_t)[:, None] + self.w_c(cov[..., None])
        e = self.v(torch.tanh(feats))[..., 0]
        a_ = torch.softmax(e, dim=1) * enc_mask
        a = a_ / a_.sum(1, keepdim=True)                     # re-normalise after masking
        c_t = torch.einsum("bl,ble->be", a, enc)

        cov_loss = torch.minimum(a, cov).sum(1)
        p = torch.sigmoid(self.p_gen(torch.cat([c_t, gen_in, s_t], 1)))
        words = p * torch.softmax(self.vocab(torch.cat([c_t, gen_in], 1)), 1)
        full = torch.cat([words, words.new_zeros(len(words), self.extra)], 1)
        full = full.scatter_add(1, ext_ids, (1 - p) * a)
        return (full + 1e-12).log(), a, cov + a, cov_loss
