import torch
import torch.nn as nn
import torch.nn.functional as F


class CoverageAttention(nn.Module):
    """Additive attention with coverage (See et al. 2017).

        e_i = v^T tanh(W_h h_i + W_s s_t + w_c c_i + b)

    dec_state: (B, D); enc_out: (B, T, E); enc_mask: (B, T), 1 for words and 0 for padding; coverage: (B, T).
    Returns the context (B, E), the distribution (B, T) and the new coverage (B, T).
    """

    def __init__(self, enc_dim, dec_dim, attn_dim):
        super().__init__()
        self.W_h = nn.Linear(enc_dim, attn_dim, bias=False)
        self.W_s = nn.Linear(dec_dim, attn_dim)
        self.w_c = nn.Linear(1, attn_dim, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, dec_state, enc_out, enc_mask, coverage):
        feat = self.W_h(enc_out) + self.W_s(dec_state).unsqueeze(1) + self.w_c(coverage.unsqueeze(-1))
        e = self.v(torch.tanh(feat)).squeeze(-1)
        a = F.softmax(e, dim=1) * enc_mask
        a = a / a.sum(1, keepdim=True)
        context = torch.bmm(a.unsqueeze(1), enc_out).squeeze(1)
        return context, a, coverage + a


class Decoder(nn.Module):
    def __init__(self, vocab=50, emb=12, enc_dim=20, dec_dim=16, attn_dim=14):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + enc_dim, dec_dim)
        self.attention = CoverageAttention(enc_dim, dec_dim, attn_dim)
        self.p_gen = nn.Linear(enc_dim + 2 * dec_dim + emb, 1)
        self.out = nn.Linear(dec_dim + enc_dim, vocab)

    def step(self, token, state, context, enc_out, enc_mask, coverage, enc_ids):
        x = self.embed(token)
        h, c = self.cell(torch.cat([x, context], 1), state)
        context, a, coverage = self.attention(h, enc_out, enc_mask, coverage)
        p = torch.sigmoid(self.p_gen(torch.cat([context, h, c, x], 1)))
        vocab = F.softmax(self.out(torch.cat([h, context], 1)), 1)
        final = (p * vocab).scatter_add(1, enc_ids, (1 - p) * a)
        return final, (h, c), context, coverage
