import torch
import torch.nn as nn


class AdditiveAttention(nn.Module):
    """e_ij = v^T tanh(W s_i + U h_j)   (Bahdanau et al. 2015)"""

    def __init__(self, dec_dim, enc_dim, attn_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, attn_dim, bias=False)
        self.U = nn.Linear(enc_dim, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def precompute(self, enc):
        return self.U(enc)

    def forward(self, s, keys, enc, pad_mask):
        """
        s: (B, dec_dim) decoder state; keys: (B, S, attn_dim) from precompute(enc)
        enc: (B, S, enc_dim); pad_mask: (B, S) bool, True at padding
        returns context (B, enc_dim) and weights (B, S)
        """
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + keys)).squeeze(-1)
        e = e.masked_fill(pad_mask, -1e9)
        a = e.softmax(dim=-1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a


class AttnDecoder(nn.Module):
    """GRU decoder that attends to the encoder states at each output step.

    Sizes: B batch, S source length, T target length.
    """

    def __init__(self, vocab, emb_dim=32, enc_dim=48, dec_dim=40, attn_dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb_dim)
        self.attn = AdditiveAttention(dec_dim, enc_dim, attn_dim)
        self.rnn = nn.GRUCell(emb_dim + enc_dim, dec_dim)
        self.bridge = nn.Linear(enc_dim, dec_dim)
        self.out = nn.Linear(dec_dim + enc_dim + emb_dim, vocab)

    def init_state(self, enc, src_lens):
        last = enc[torch.arange(enc.size(0)), src_lens - 1]
        return torch.tanh(self.bridge(last))

    def step(self, y, s, keys, enc, pad_mask):
        """One step. y: (B,) previous tokens. Returns logits (B, vocab), state, weights (B, S)."""
        emb = self.emb(y)
        ctx, a = self.attn(s, keys, enc, pad_mask)
        s = self.rnn(torch.cat([emb, ctx], -1), s)
        return self.out(torch.cat([s, ctx, emb], -1)), s, a

    def forward(self, enc, src_lens, tgt):
        """Teacher forcing. enc: (B, S, enc_dim); src_lens: (B,); tgt: (B, T) token ids."""
        pad_mask = torch.arange(enc.size(1), device=enc.device)[None] >= src_lens[:, None]
        keys = self.attn.precompute(enc)
        s = self.init_state(enc, src_lens)
        logits, weights = [], []
        for t in range(tgt.size(1)):
            o, s, a = self.step(tgt[:, t], s, keys, enc, pad_mask)
            logits.append(o)
            weights.append(a)
        return torch.stack(logits, 1), torch.stack(weights, 1)
