# Listen, attend and spell: the speller side.  T = encoder frames, U = characters.
import torch
import torch.nn as nn


class MlpAttender(nn.Module):
    """score(s, h_t) = v . tanh(W s + U h_t + b)  (Bahdanau)"""

    def __init__(self, enc_dim, dec_dim, att_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim, bias=False)
        self.U = nn.Linear(enc_dim, att_dim)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, s, h, lens, Uh=None):
        """s [B, dec]; h [B, T, enc]; lens [B] number of true frames (>= 1)."""
        if Uh is None:
            Uh = self.U(h)
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + Uh)).squeeze(-1)
        frame = torch.arange(h.size(1), device=h.device)
        e = e.masked_fill(frame.unsqueeze(0) >= lens.unsqueeze(1), -float("inf"))
        w = torch.softmax(e, dim=1)
        return torch.einsum("bt,bte->be", w, h), w


class Speller(nn.Module):
    def __init__(self, vocab, enc_dim, dec_dim=24, att_dim=16, emb=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + enc_dim, dec_dim)
        self.att = MlpAttender(enc_dim, dec_dim, att_dim)
        self.out = nn.Linear(dec_dim + enc_dim, vocab)
        self.dec_dim = dec_dim

    def forward(self, enc, lens, chars):
        """teacher forcing; chars [B, U] starts with <sos>."""
        B, U = chars.shape
        hx = enc.new_zeros(B, self.dec_dim)
        cx = enc.new_zeros(B, self.dec_dim)
        ctx = enc.new_zeros(B, enc.size(2))
        Uh = self.att.U(enc)
        logits, maps = [], []
        for u in range(U):
            hx, cx = self.cell(torch.cat([self.emb(chars[:, u]), ctx], -1), (hx, cx))
            ctx, w = self.att(hx, enc, lens, Uh)
            logits.append(self.out(torch.cat([hx, ctx], -1)))
            maps.append(w)
        return torch.stack(logits, 1), torch.stack(maps, 1)

    @torch.no_grad()
    def greedy(self, enc, lens, sos, eos, limit=50):
        B = enc.size(0)
        hx = enc.new_zeros(B, self.dec_dim)
        cx, ctx = hx.clone(), enc.new_zeros(B, enc.size(2))
        tok = torch.full((B,), sos, dtype=torch.long, device=enc.device)
        done = torch.zeros(B, dtype=torch.bool, device=enc.device)
        res = []
        for _ in range(limit):
            hx, cx = self.cell(torch.cat([self.emb(tok), ctx], -1), (hx, cx))
            ctx, _ = self.att(hx, enc, lens)
            tok = self.out(torch.cat([hx, ctx], -1)).argmax(-1)
            tok = tok.masked_fill(done, eos)
            done = done | (tok == eos)
            res.append(tok)
            if bool(done.all()):
                break
        return torch.stack(res, 1)
