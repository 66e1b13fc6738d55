"""Next-note model: an attention layer reads the whole melody so far and its last position is
used to predict the next note.  No cache; melodies are short and are simply re-read.
"""
import torch
from torch import nn


class NextNote(nn.Module):
    """notes (B, T) int64, B melodies of T notes each; the melodies have nothing to do with
    one another.  A note attends to all notes of its own melody (only the last position's
    result is used, so no causal mask is needed)."""

    def __init__(self, n_notes=88, dim=32, heads=4, max_len=128):
        super().__init__()
        self.note = nn.Embedding(n_notes, dim)
        self.place = nn.Embedding(max_len, dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=0.0)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_notes)

    def forward(self, notes):
        """(B, T) -> logits of the next note (B, n_notes)."""
        x = self.note(notes) + self.place(torch.arange(notes.shape[1]))
        y, _ = self.attn(x, x, x, need_weights=False)
        x = self.norm(x + y)
        return self.head(x[:, -1])

    @torch.no_grad()
    def improvise(self, notes, steps, temperature=1.0, generator=None):
        """Append `steps` sampled notes: (B, T) -> (B, T + steps)."""
        for _ in range(steps):
            p = torch.softmax(self(notes) / temperature, dim=-1)
            notes = torch.cat([notes, torch.multinomial(p, 1, generator=generator)], dim=1)
        return notes
