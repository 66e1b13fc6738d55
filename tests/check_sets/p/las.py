import torch
import torch.nn as nn


class Speller(nn.Module):
    """Listen, attend and spell: two LSTM cells and content attention with energies <phi(s), psi(h)>, not scaled.

    listener (B, U, enc), lengths (B,) int, y (B, T) of characters fed to the decoder -> logits (B, T, vocab)
    """

    def __init__(self, vocab=12, enc=6, hidden=8, mlp=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell1 = nn.LSTMCell(hidden + enc, hidden)
        self.cell2 = nn.LSTMCell(hidden, hidden)
        self.phi = nn.Linear(hidden, mlp)
        self.psi = nn.Linear(enc, mlp)
        self.character = nn.Linear(hidden + enc, vocab)

    def forward(self, listener, lengths, y):
        B, U, _ = listener.shape
        gone = torch.arange(U)[None] >= lengths[:, None]
        keys = torch.relu(self.psi(listener))
        context = listener[:, 0]
        one = two = None
        outputs = []
        for t in range(y.shape[1]):
            one = self.cell1(torch.cat([self.embed(y[:, t]), context], dim=1), one)
            two = self.cell2(one[0], two)
            s = torch.relu(self.phi(two[0]))
            energy = torch.einsum("bum,bm->bu", keys, s).masked_fill(gone, float("-inf"))
            context = torch.einsum("bu,bue->be", torch.softmax(energy, dim=1), listener)
            outputs.append(self.character(torch.cat([two[0], context], dim=1)))
        return torch.stack(outputs, dim=1)
