import torch
import torch.nn as nn


class AttnDecoder(nn.Module):
    """Recurrent decoder with additive attention over the encoder states.

    forward(y, enc, h): y (B, T) token ids, enc (B, S, enc_dim), h (B, hid) -> (logits (B, T, vocab), alignments (B, T, S))
    """

    def __init__(self, vocab, emb, enc_dim, hid, att=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.cell = nn.GRUCell(emb + enc_dim, hid)
        self.w_h = nn.Linear(hid, att, bias=False)
        self.w_e = nn.Linear(enc_dim, att)
        self.v_a = nn.Linear(att, 1, bias=False)
        self.readout = nn.Linear(hid + enc_dim, vocab)

    def align(self, h, enc, enc_proj):
        e = self.v_a(torch.tanh(self.w_h(h).unsqueeze(1) + enc_proj)).squeeze(-1)
        a = e.softmax(-1)
        return a, torch.einsum("bs,bsd->bd", a, enc)

    def forward(self, y, enc, h):
        enc_proj = self.w_e(enc)
        logits, aligns = [], []
        for step in range(y.shape[1]):
            a, c = self.align(h, enc, enc_proj)
            h = self.cell(torch.cat([self.embed(y[:, step]), c], -1), h)
            logits.append(self.readout(torch.cat([h, c], -1)))
            aligns.append(a)
        return torch.stack(logits, 1), torch.stack(aligns, 1)
