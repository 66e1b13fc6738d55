import torch
import torch.nn as nn
import torch.nn.functional as F


class CovAttention(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.W_h = nn.Linear(hid, hid, bias=False)
        self.W_s = nn.Linear(hid, hid)
        self.W_c = nn.Linear(1, hid, bias=False)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, s_t, enc, enc_feat, enc_mask, coverage):
        # s_t: B x hid, enc: B x T x hid, enc_mask: B x T (1 = word), coverage: B x T
        e = self.v(torch.tanh(enc_feat + self.W_s(s_t).unsqueeze(1) + self.W_c(coverage.unsqueeze(-1)))).squeeze(-1)
        a = F.softmax(e, dim=1) * enc_mask
        a = a / a.sum(1, keepdim=True)          # renormalise over real words
        ctx = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        return ctx, a, coverage + a


class PointerGeneratorDecoder(nn.Module):
    """Get To The Point (See et al. 2017), teacher forced.

    enc_out (B, T, hid), enc_mask (B, T) float, src_ext (B, T) ids in the extended vocabulary,
    tgt (B, L) ids.  Gives the final distribution (B, L, vocab + n_oov) and the coverage loss.
    """

    def __init__(self, vocab=50, emb=16, hid=24, n_oov=5):
        super().__init__()
        self.vocab, self.n_oov, self.hid = vocab, n_oov, hid
        self.emb = nn.Embedding(vocab, emb)
        self.inp = nn.Linear(emb + hid, emb)
        self.cell = nn.LSTMCell(emb, hid)
        self.att = CovAttention(hid)
        self.p_gen = nn.Linear(2 * hid + emb, 1)
        self.out1 = nn.Linear(2 * hid, hid)
        self.out2 = nn.Linear(hid, vocab)

    def forward(self, enc_out, enc_mask, src_ext, tgt):
        B, T, _ = enc_out.shape
        h = enc_out.new_zeros(B, self.hid)
        c = enc_out.new_zeros(B, self.hid)
        ctx = enc_out.new_zeros(B, self.hid)
        cov = enc_out.new_zeros(B, T)
        feat = self.att.W_h(enc_out)
        dists, cov_loss = [], 0.
        for t in range(tgt.size(1)):
            x = self.inp(torch.cat([self.emb(tgt[:, t]), ctx], 1))
            h, c = self.cell(x, (h, c))
            ctx, a, new_cov = self.att(h, enc_out, feat, enc_mask, cov)
            cov_loss = cov_loss + torch.min(a, cov).sum(1).mean()
            cov = new_cov
            p = torch.sigmoid(self.p_gen(torch.cat([ctx, h, x], 1)))
            vocab_dist = F.softmax(self.out2(self.out1(torch.cat([h, ctx], 1))), dim=1)
            final = torch.cat([p * vocab_dist, enc_out.new_zeros(B, self.n_oov)], 1)
            final = final.scatter_add(1, src_ext, (1 - p) * a)
            dists.append(final)
        return torch.stack(dists, 1), cov_loss / tgt.size(1)
