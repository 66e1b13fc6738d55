"""Luong (2015) decoder with input feeding; Guarani -> Spanish."""
import torch
import torch.nn as nn


class LuongDecoder(nn.Module):
    """forward(src_states, src_len, tgt, forcing=1.0)

    src_states (B, S, H) encoder outputs, src_len (B,) true lengths (>= 1),
    tgt (B, T) gold tokens, tgt[:, 0] is <bos>. The input of step t is tgt[:, t] under teacher
    forcing, else the argmax of step t-1. Score is "general": h_t^T W h_s, unscaled as in the paper.
    Returns logits (B, T, vocab) and weights (B, T, S) which are 0 on the source padding.
    """

    def __init__(self, vocab=20, emb=12, H=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + H, H)
        self.Wa = nn.Linear(H, H, bias=False)
        self.Wc = nn.Linear(2 * H, H, bias=False)
        self.Ws = nn.Linear(H, vocab)

    def forward(self, src_states, src_len, tgt, forcing=1.0):
        B, S, H = src_states.shape
        pad = torch.arange(S, device=src_len.device).expand(B, S) >= src_len[:, None]
        keys = self.Wa(src_states)                       # once for all the steps
        h = c = feed = src_states.new_zeros(B, H)
        tok = tgt[:, 0]
        logits, maps = [], []
        for t in range(tgt.shape[1]):
            if t and (forcing >= 1.0 or torch.rand(()) < forcing):
                tok = tgt[:, t]
            h, c = self.cell(torch.cat([self.emb(tok), feed], -1), (h, c))
            e = torch.bmm(keys, h.unsqueeze(-1)).squeeze(-1)
            a = torch.softmax(e.masked_fill(pad, float("-inf")), -1)
            ctx = (a.unsqueeze(-1) * src_states).sum(1)
            feed = torch.tanh(self.Wc(torch.cat([ctx, h], -1)))
            o = self.Ws(feed)
            tok = o.argmax(-1)
            logits.append(o)
            maps.append(a)
        return torch.stack(logits, 1), torch.stack(maps, 1)
