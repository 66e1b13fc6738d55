"""Headline generation with a pointer-generator (See et al. 2017), Lenta.ru corpus.

Внимание:  e_i = v^T tanh(W_h h_i + W_s s_t + b),   a = softmax(e)
Распределение a возвращается наружу: из него собирается копирующая часть,
поэтому сумма a по словам источника равна единице.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, UNK, BOS, EOS = range(4)


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.reduce_h = nn.Linear(2 * hid, hid)
        self.reduce_c = nn.Linear(2 * hid, hid)

    def forward(self, src):
        out, (h, c) = self.rnn(self.emb(src))
        h, c = torch.cat(tuple(h), -1), torch.cat(tuple(c), -1)
        return out, (torch.relu(self.reduce_h(h)), torch.relu(self.reduce_c(c)))


class SourceAttention(nn.Module):
    """state (B, Ds), enc (B, L, De), src_pad (B, L) — True там, где <pad>.

    Возвращает контекст (B, De) и распределение (B, L).
    """

    def __init__(self, d_state, d_enc, d_attn, p=0.1):
        super().__init__()
        self.w_h = nn.Linear(d_enc, d_attn, bias=False)
        self.w_s = nn.Linear(d_state, d_attn)
        self.v = nn.Linear(d_attn, 1, bias=False)
        self.drop = nn.Dropout(p)

    def forward(self, state, enc, src_pad):
        feats = self.w_h(enc) + self.w_s(state).unsqueeze(1)
        e = self.v(feats).squeeze(-1)
        e = e.masked_fill(src_pad, -1e30)
        a = F.softmax(e, dim=-1)
        a = self.drop(a)
        ctx = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        return ctx, a


class PointerDecoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.cell = nn.LSTMCell(emb + 2 * hid, hid)
        self.attn = SourceAttention(hid, 2 * hid, hid)
        self.out = nn.Sequential(nn.Linear(3 * hid, hid), nn.Linear(hid, vocab))
        self.p_gen = nn.Linear(2 * hid + hid + emb, 1)

    def forward(self, y, hc, ctx, enc, src_pad, src_ext, n_oov):
        e = self.emb(y.masked_fill(y >= self.vocab, UNK))
        h, c = self.cell(torch.cat([e, ctx], -1), hc)
        ctx, a = self.attn(h, enc, src_pad)
        p_vocab = F.softmax(self.out(torch.cat([h, ctx], -1)), -1)
        g = torch.sigmoid(self.p_gen(torch.cat([ctx, h, e], -1)))
        dist = F.pad(g * p_vocab, (0, n_oov)).scatter_add(1, src_ext, (1 - g) * a)
        return dist, (h, c), ctx, a


class Headliner(nn.Module):
    def __init__(self, vocab=200, emb=24, hid=20):
        super().__init__()
        self.enc = Encoder(vocab, emb, hid)
        self.dec = PointerDecoder(vocab, emb, hid)
        self.vocab = vocab

    def forward(self, src, src_ext, tgt, n_oov):
        enc, hc = self.enc(src.masked_fill(src >= self.vocab, UNK))
        pad = src == PAD
        ctx = enc.new_zeros(enc.size(0), enc.size(2))
        cover = enc.new_zeros(pad.shape)
        nll = cov = 0.0
        for t in range(tgt.size(1) - 1):
            dist, hc, ctx, a = self.dec(tgt[:, t], hc, ctx, enc, pad, src_ext, n_oov)
            nll = nll - dist.gather(1, tgt[:, t + 1, None]).clamp(min=1e-9).log().mean()
            cov = cov + torch.minimum(a, cover).sum(1).mean()
            cover = cover + a
        return (nll + cov) / (tgt.size(1) - 1)
