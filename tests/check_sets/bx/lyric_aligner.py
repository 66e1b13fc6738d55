"""Lyric-to-melody alignment for the score editor.

Syllables and notes are encoded by two small recurrent nets.  Each syllable
then looks over all the notes of the phrase with an additive score

    e[i, j] = v . tanh(A s_i + B n_j)

and receives its own mixture of note vectors, from which its onset (in beats)
is predicted.  Phrases may be given whole or syllable by syllable.
"""
import torch
import torch.nn as nn


class SyllableAligner(nn.Module):

    def __init__(self, syll_feats=10, note_feats=6, hidden=16, units=20):
        super().__init__()
        self.syll_net = nn.GRU(syll_feats, hidden, batch_first=True)
        self.note_net = nn.GRU(note_feats, hidden, batch_first=True)
        self.from_syll = nn.Linear(hidden, units)
        self.from_note = nn.Linear(hidden, units, bias=False)
        self.energy = nn.Linear(units, 1, bias=False)
        self.onset = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def look(self, s, n, note_on):
        hid = torch.tanh(self.from_syll(s) + self.from_note(n))
        e = self.energy(hid).squeeze(-1)
        e = e.masked_fill(~note_on, float("-inf"))
        w = torch.softmax(e, dim=-1)
        return torch.bmm(w.unsqueeze(1), n)

    def forward(self, syllables, notes, note_on=None):
        """
        syllables: (batch, n_syll, syll_feats)
        notes:     (batch, n_notes, note_feats)
        note_on:   (batch, n_notes) bool, False for filler notes
        returns the onset of every syllable, (batch, n_syll)
        """
        s, _ = self.syll_net(syllables)
        n, _ = self.note_net(notes)
        if note_on is None:
            note_on = torch.ones(notes.shape[:2], dtype=torch.bool, device=notes.device)
        heard = self.look(s, n, note_on).expand_as(s)
        return self.onset(torch.cat([s, heard], dim=-1)).squeeze(-1)


if __name__ == "__main__":
    net = SyllableAligner()
    print(net(torch.randn(2, 8, 10), torch.randn(2, 8, 6)).shape)
