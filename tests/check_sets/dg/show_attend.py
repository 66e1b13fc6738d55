import torch
from torch import nn


class CaptionDecoder(nn.Module):
    """Show, Attend and Tell on CNN features (soft version with the gate beta)."""

    def __init__(self, cfg):
        super().__init__()
        C, E, H, A, V = cfg["channels"], cfg["embed"], cfg["hidden"], cfg["att"], cfg["vocab"]
        self.embed = nn.Embedding(V, E)
        self.img = nn.Linear(C, A)
        self.hid = nn.Linear(H, A)
        self.score = nn.Linear(A, 1)
        self.beta = nn.Linear(H, C)
        self.h0, self.c0 = nn.Linear(C, H), nn.Linear(C, H)
        self.cell = nn.LSTMCell(E + C, H)
        self.logits = nn.Linear(H, V)

    def look(self, pix, h):
        """pix (B, P, C), h (B, H) -> glimpse (B, C), map (B, P)"""
        e = self.score(torch.relu(self.img(pix) + self.hid(h).unsqueeze(1))).squeeze(2)
        alpha = torch.softmax(e, dim=1)
        return (pix * alpha.unsqueeze(2)).sum(dim=1), alpha

    def forward(self, fmap, tokens):
        """fmap (B, C, h, w), tokens (B, T) -> logits (B, T, V), maps (B, T, h, w)"""
        B, _, fh, fw = fmap.shape
        pix = fmap.flatten(2).transpose(1, 2)
        mean = pix.mean(1)
        h, c = torch.tanh(self.h0(mean)), torch.tanh(self.c0(mean))
        ys, maps = [], []
        for t in range(tokens.size(1)):
            z, alpha = self.look(pix, h)
            z = torch.sigmoid(self.beta(h)) * z
            h, c = self.cell(torch.cat([self.embed(tokens[:, t]), z], 1), (h, c))
            ys.append(self.logits(h))
            maps.append(alpha.view(B, fh, fw))
        return torch.stack(ys, 1), torch.stack(maps, 1)


def make(vocab=30):
    return CaptionDecoder(dict(channels=20, embed=12, hidden=16, att=14, vocab=vocab))
