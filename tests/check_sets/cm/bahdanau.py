"""Attention decoder for the NMT course exercise (Bahdanau et al., 2015)."""
import torch
import torch.nn as nn


class AdditiveAttention(nn.Module):
    """score(s, h_j) = v^T tanh(W s + U h_j), softmax over the source positions j."""

    def __init__(self, dec_dim, enc_dim, att_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim, bias=False)
        self.U = nn.Linear(enc_dim, att_dim)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, state, memory, src_mask):
        # state (B, dec), memory (B, S, enc), src_mask (B, S) True on real tokens
        e = self.v(torch.tanh(self.W(state).unsqueeze(1) + self.U(memory))).squeeze(2)
        e = e.masked_fill(~src_mask, torch.finfo(e.dtype).min)
        a = torch.softmax(e, dim=1)
        ctx = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
        return ctx, a


class AttnDecoder(nn.Module):
    """Teacher-forced GRU decoder. Returns logits (B, T, vocab) and alignments (B, T, S)."""

    def __init__(self, vocab=30, emb=12, dec_dim=16, enc_dim=20, att_dim=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.attn = AdditiveAttention(dec_dim, enc_dim, att_dim)
        self.cell = nn.GRUCell(emb + enc_dim, dec_dim)
        self.init = nn.Linear(enc_dim, dec_dim)
        self.out = nn.Linear(dec_dim + enc_dim + emb, vocab)

    def forward(self, tgt_in, memory, src_len):
        S = memory.shape[1]
        src_mask = torch.arange(S, device=memory.device)[None, :] < src_len[:, None]
        m = src_mask.unsqueeze(-1).to(memory.dtype)
        mean = (memory * m).sum(1) / m.sum(1).clamp(min=1)
        s = torch.tanh(self.init(mean))
        logits, aligns = [], []
        for t in range(tgt_in.shape[1]):
            y = self.embed(tgt_in[:, t])
            ctx, a = self.attn(s, memory, src_mask)
            s = self.cell(torch.cat((y, ctx), dim=-1), s)
            logits.append(self.out(torch.cat((s, ctx, y), dim=-1)))
            aligns.append(a)
        return torch.stack(logits, 1), torch.stack(aligns, 1)
