# Get To The Point style decoder (See et al.), one step at a time.
import torch
from torch import nn
from torch.nn import functional as F


class CoverageAttention(nn.Module):
    """e_ti = v . tanh(W_h h_i + W_s s_t + w_c c_i + b)

    enc_padding_mask: float (B, T), 1 for real source words and 0 for padding.
    Every row has at least one real word.
    """

    def __init__(self, hidden, use_coverage=True):
        super().__init__()
        self.use_coverage = use_coverage
        self.W_h = nn.Linear(2 * hidden, 2 * hidden, bias=False)
        self.W_s = nn.Linear(2 * hidden, 2 * hidden)
        self.W_c = nn.Linear(1, 2 * hidden, bias=False)
        self.v = nn.Linear(2 * hidden, 1, bias=False)

    def forward(self, s_t, enc_out, enc_feat, enc_padding_mask, coverage):
        feat = enc_feat + self.W_s(s_t).unsqueeze(1)
        if self.use_coverage:
            feat = feat + self.W_c(coverage.unsqueeze(-1))
        e = self.v(torch.tanh(feat)).squeeze(-1)

        a = F.softmax(e, dim=1) * enc_padding_mask
        a = a / a.sum(1, keepdim=True)

        ctx = torch.bmm(a.unsqueeze(1), enc_out).squeeze(1)
        if self.use_coverage:
            coverage = coverage + a
        return ctx, a, coverage


class PGenStep(nn.Module):
    def __init__(self, vocab_size, emb=32, hidden=24, use_coverage=True):
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, emb)
        self.x_context = nn.Linear(2 * hidden + emb, emb)
        self.cell = nn.LSTMCell(emb, hidden)
        self.attn = CoverageAttention(hidden, use_coverage)
        self.p_gen = nn.Linear(4 * hidden + emb, 1)
        self.out1 = nn.Linear(3 * hidden, hidden)
        self.out2 = nn.Linear(hidden, vocab_size)

    def init_state(self, enc_out):
        B, T, two_h = enc_out.shape
        z = enc_out.new_zeros
        return {
            "h": z(B, two_h // 2), "c": z(B, two_h // 2),
            "ctx": z(B, two_h), "coverage": z(B, T),
            "feat": self.attn.W_h(enc_out),
        }

    def forward(self, y_prev, state, enc_out, enc_padding_mask, src_ext_ids, n_oov=0):
        """src_ext_ids: source ids in the extended vocabulary (OOV words numbered from
        vocab_size up).  Gives the final distribution (B, vocab_size + n_oov), the new
        state and a dict with attention and p_gen."""
        x = self.x_context(torch.cat((state["ctx"], self.embedding(y_prev)), 1))
        h, c = self.cell(x, (state["h"], state["c"]))
        s_hat = torch.cat((h, c), 1)
        ctx, a, cov = self.attn(s_hat, enc_out, state["feat"], enc_padding_mask, state["coverage"])

        p = torch.sigmoid(self.p_gen(torch.cat((ctx, s_hat, x), 1)))
        vocab = F.softmax(self.out2(self.out1(torch.cat((h, ctx), 1))), dim=1)
        final = p * vocab
        if n_oov:
            final = torch.cat((final, final.new_zeros(final.size(0), n_oov)), 1)
        final = final.scatter_add(1, src_ext_ids, (1 - p) * a)
        new = dict(state, h=h, c=c, ctx=ctx, coverage=cov)
        cov_loss = torch.min(a, state["coverage"]).sum(1)
        return final, new, {"attn": a, "p_gen": p, "cov_loss": cov_loss}
