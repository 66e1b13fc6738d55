"""Attentional RNN decoder for speech recognition.

Content attention is the additive one of Bahdanau et al.: e_j = v^T tanh(W s + V h_j + b).

Example
-------
>>> att = ContentAttention(enc_dim=20, dec_dim=25, attn_dim=30, out_dim=5)
>>> c, w = att(torch.rand(4, 10, 20), torch.ones(4), torch.rand(4, 25))
>>> c.shape
torch.Size([4, 5])
"""
import torch
from torch import nn


def length_to_mask(length, max_len):
    """1 for real frames, 0 for filler."""
    return torch.arange(max_len, device=length.device)[None, :] < length[:, None]


class ContentAttention(nn.Module):
    """Returns the context and the weights over the encoder frames.

    Arguments of forward
    --------------------
    enc_states : [batch, time, enc_dim]
    enc_len : relative lengths in (0, 1], [batch]
    dec_states : [batch, dec_dim]
    """

    def __init__(self, enc_dim, dec_dim, attn_dim, out_dim, scaling=1.0):
        super().__init__()
        self.mlp_enc = nn.Linear(enc_dim, attn_dim)
        self.mlp_dec = nn.Linear(dec_dim, attn_dim)
        self.mlp_attn = nn.Linear(attn_dim, 1, bias=False)
        self.mlp_out = nn.Linear(enc_dim, out_dim)
        self.scaling = scaling
        self.reset()

    def reset(self):
        """Call before every new batch."""
        self.precomputed = None
        self.mask = None

    def forward(self, enc_states, enc_len, dec_states):
        if self.precomputed is None:
            T = enc_states.shape[1]
            self.precomputed = self.mlp_enc(enc_states)
            self.mask = length_to_mask((enc_len * T).round(), T)
        energy = self.mlp_attn(self.precomputed + self.mlp_dec(dec_states.unsqueeze(1))).squeeze(-1)
        energy = energy.masked_fill(~self.mask, float("-inf"))
        attn = torch.softmax(energy * self.scaling, dim=-1)
        context = torch.bmm(attn.unsqueeze(1), enc_states).squeeze(1)
        return self.mlp_out(context), attn


class AttentionalDecoder(nn.Module):
    def __init__(self, enc_dim, emb_dim, hidden, attn_dim, vocab, bos=1, eos=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb_dim)
        self.attn = ContentAttention(enc_dim, hidden, attn_dim, hidden)
        self.cell = nn.GRUCell(emb_dim + hidden, hidden)
        self.proj = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, vocab)
        self.hidden, self.bos, self.eos = hidden, bos, eos

    def step(self, tok, h, c, enc, enc_len):
        h = self.cell(torch.cat([self.emb(tok), c], -1), h)
        c, w = self.attn(enc, enc_len, h)
        return self.out(torch.tanh(self.proj(torch.cat([c, h], -1)))), h, c, w

    def forward(self, tokens, enc, enc_len):
        """Teacher forcing: tokens [batch, steps], first column bos."""
        self.attn.reset()
        B = enc.size(0)
        h, c = enc.new_zeros(B, self.hidden), enc.new_zeros(B, self.hidden)
        logits, ws = [], []
        for t in range(tokens.size(1)):
            y, h, c, w = self.step(tokens[:, t], h, c, enc, enc_len)
            logits.append(y)
            ws.append(w)
        return torch.stack(logits, 1), torch.stack(ws, 1)

    @torch.no_grad()
    def greedy(self, enc, enc_len, max_steps=50):
        self.attn.reset()
        B = enc.size(0)
        h, c = enc.new_zeros(B, self.hidden), enc.new_zeros(B, self.hidden)
        tok, out = torch.full((B,), self.bos), []
        for _ in range(max_steps):
            y, h, c, _ = self.step(tok, h, c, enc, enc_len)
            tok = y.argmax(-1)
            out.append(tok)
            if bool((tok == self.eos).all()):
                break
        return torch.stack(out, 1)
