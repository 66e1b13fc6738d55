"""Question -> clinical note reader used in the triage prototype.

The question tokens attend to the note (cross attention).  Notes are padded; the
tokenizer hands out `pad_mask`, bool [B, N], True on the padding (every note has
at least one real token and ends with [SEP]).
"""
import torch
import torch.nn.functional as F
from torch import nn


class NoteReader(nn.Module):
    def __init__(self, d_question=32, d_note=40, d_model=48, n_heads=4, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.dropout = dropout
        self.q = nn.Linear(d_question, d_model)
        self.kv = nn.Linear(d_note, 2 * d_model)
        self.out = nn.Linear(d_model, d_question)
        self.ln_q = nn.LayerNorm(d_question)
        self.ln_n = nn.LayerNorm(d_note)

    def forward(self, question, note, pad_mask=None):
        """
        question [B, Q, d_question]
        note     [B, N, d_note]
        pad_mask bool [B, N], True = padding, such tokens must not be read
        -> [B, Q, d_question]
        """
        B, Q, _ = question.shape
        N = note.shape[1]
        q = self.q(self.ln_q(question)).view(B, Q, self.n_heads, self.d_head).transpose(1, 2)
        k, v = (
            self.kv(self.ln_n(note))
            .view(B, N, 2, self.n_heads, self.d_head)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        attn_mask = None
        if pad_mask is not None:
            attn_mask = pad_mask[:, None, None, :].expand(B, 1, Q, N)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask,
            dropout_p=self.dropout if self.training else 0.0,
        )
        y = y.transpose(1, 2).reshape(B, Q, self.n_heads * self.d_head)
        return question + self.out(y)


class TriageHead(nn.Module):
    """Urgency score from the question (first token) after reading the note."""

    def __init__(self, levels=5):
        super().__init__()
        self.reader = NoteReader()
        self.fc = nn.Linear(32, levels)

    def forward(self, question, note, pad_mask=None):
        return self.fc(self.reader(question, note, pad_mask)[:, 0])
