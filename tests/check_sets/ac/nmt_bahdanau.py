# seq2seq with the attention of Bahdanau, Cho & Bengio (2015)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, n_src, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(n_src, emb, padding_idx=0)
        self.rnn = nn.GRU(emb, hid, bidirectional=True, batch_first=True)
        self.bridge = nn.Linear(2 * hid, hid)

    def forward(self, src, lens):
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(src), lens.cpu(), batch_first=True,
                                                   enforce_sorted=False)
        out, h = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=src.size(1))
        s0 = torch.tanh(self.bridge(torch.cat([h[0], h[1]], dim=-1)))
        return out, s0


class MLPAttention(nn.Module):
    """alpha_ij = softmax_j(e_ij),  e_ij = a(s_{i-1}, h_j), a is the alignment MLP."""

    def __init__(self, dec_dim, enc_dim, att_dim):
        super().__init__()
        self.W_s = nn.Linear(dec_dim, att_dim, bias=False)
        self.U_h = nn.Linear(enc_dim, att_dim, bias=True)
        self.v_a = nn.Linear(att_dim, 1, bias=False)

    def forward(self, s, enc, mask):
        # s (B, D), enc (B, S, E), mask (B, S) True on real tokens
        hidden = self.W_s(s).unsqueeze(1) + self.U_h(enc)
        e = self.v_a(hidden).squeeze(-1)
        e = e.masked_fill(~mask, float('-inf'))
        alpha = F.softmax(e, dim=-1)
        ctx = torch.bmm(alpha.unsqueeze(1), enc).squeeze(1)
        return ctx, alpha


class Decoder(nn.Module):
    def __init__(self, n_tgt, emb, hid, enc_dim, att_dim):
        super().__init__()
        self.emb = nn.Embedding(n_tgt, emb, padding_idx=0)
        self.att = MLPAttention(hid, enc_dim, att_dim)
        self.cell = nn.GRUCell(emb + enc_dim, hid)
        self.readout = nn.Linear(hid + enc_dim + emb, n_tgt)

    def step(self, y, s, enc, mask):
        y = self.emb(y)
        ctx, alpha = self.att(s, enc, mask)
        s = self.cell(torch.cat([y, ctx], dim=-1), s)
        return self.readout(torch.cat([s, ctx, y], dim=-1)), s, alpha


class NMT(nn.Module):
    def __init__(self, n_src, n_tgt, emb=32, hid=48, att_dim=40):
        super().__init__()
        self.enc = Encoder(n_src, emb, hid)
        self.dec = Decoder(n_tgt, emb, hid, 2 * hid, att_dim)

    def forward(self, src, lens, tgt):
        mask = torch.arange(src.size(1), device=src.device)[None] < lens[:, None].to(src.device)
        enc, s = self.enc(src, lens)
        logits, aligns = [], []
        for t in range(tgt.size(1)):
            out, s, alpha = self.dec.step(tgt[:, t], s, enc, mask)
            logits.append(out)
            aligns.append(alpha)
        return torch.stack(logits, 1), torch.stack(aligns, 1)
