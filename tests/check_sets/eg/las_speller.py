"""Listen, Attend and Spell: attention of the speller over the listener's frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MLPAttention(nn.Module):
    """
    state   (B, dec)      speller state
    listener (B, U, enc)  listener features, padded to U frames
    lens    (B,)          number of real listener frames, 1 <= lens <= U. Frames lens[b], lens[b]+1, ...
                          are padding and get weight zero.
    weights = softmax_u < phi(state), psi(listener_u) >; context = sum_u weights_u listener_u
    (energies without scaling, as in the paper)
    """

    def __init__(self, dec, enc, inner):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(dec, inner), nn.ReLU())
        self.psi = nn.Sequential(nn.Linear(enc, inner), nn.ReLU())

    def forward(self, state, listener, lens):
        energy = torch.einsum("bi,bui->bu", self.phi(state), self.psi(listener))
        frame = torch.arange(listener.size(1), device=listener.device)
        inside = frame.unsqueeze(0) <= lens.unsqueeze(1)
        energy = energy.masked_fill(~inside, float("-inf"))
        weights = F.softmax(energy, dim=-1)
        return torch.einsum("bu,bue->be", weights, listener), weights


class Speller(nn.Module):
    """listener (B, U, enc), lens (B,), chars (B, T) teacher forcing -> logits (B, T, vocab)"""

    def __init__(self, enc=24, dec=32, vocab=30, inner=16, emb=12):
        super().__init__()
        self.dec = dec
        self.embed = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + enc, dec)
        self.attend = MLPAttention(dec, enc, inner)
        self.out = nn.Linear(dec + enc, vocab)

    def forward(self, listener, lens, chars):
        B = listener.size(0)
        h = c = listener.new_zeros(B, self.dec)
        context, _ = self.attend(h, listener, lens)
        logits = []
        for t in range(chars.size(1)):
            h, c = self.cell(torch.cat([self.embed(chars[:, t]), context], -1), (h, c))
            context, _ = self.attend(h, listener, lens)
            logits.append(self.out(torch.cat([h, context], -1)))
        return torch.stack(logits, 1)
