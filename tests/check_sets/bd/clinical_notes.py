"""ICD-10 coding of clinical notes: BiLSTM + multi-head self attention + label queries."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def lengths_to_padding(lengths, max_len=None):
    """True where there is NO token."""
    max_len = max_len or int(lengths.max())
    return torch.arange(max_len, device=lengths.device)[None, :] >= lengths[:, None]


class FoldedAttention(nn.Module):
    """Multi-head attention with the heads folded into the batch axis, for torch.bmm.

    `padding` [B, Lk] (True = no token) belongs to the notes of the batch, every note has its own.
    """

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.fc = nn.Linear(n_head * d_v, d_model)
        self.layer_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, padding=None):
        n, dk, dv = self.n_head, self.d_k, self.d_v
        b, lq, _ = q.size()
        lk = k.size(1)
        residual = q

        q = self.w_qs(q).view(b, lq, n, dk)
        k = self.w_ks(k).view(b, lk, n, dk)
        v = self.w_vs(v).view(b, lk, n, dv)
        q = q.permute(2, 0, 1, 3).reshape(n * b, lq, dk)
        k = k.permute(2, 0, 1, 3).reshape(n * b, lk, dk)
        v = v.permute(2, 0, 1, 3).reshape(n * b, lk, dv)

        att = torch.bmm(q, k.transpose(1, 2)) / dk ** 0.5
        if padding is not None:
            hide = padding.unsqueeze(1).expand(-1, lq, -1)
            hide = hide.repeat_interleave(n, dim=0)
            att = att.masked_fill(hide, float("-inf"))
        att = torch.softmax(att, dim=2)
        out = torch.bmm(self.dropout(att), v)

        out = out.view(n, b, lq, dv).permute(1, 2, 0, 3).reshape(b, lq, n * dv)
        return self.layer_norm(self.dropout(self.fc(out)) + residual)


class NoteCoder(nn.Module):
    def __init__(self, vocab, codes, dim=64, heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)
        self.mix = FoldedAttention(heads, dim, dim // heads, dim // heads)
        self.label = nn.Embedding(codes, dim)
        self.read = FoldedAttention(heads, dim, dim // heads, dim // heads)
        self.out = nn.Parameter(torch.randn(codes, dim) * 0.02)

    def forward(self, tokens, lengths):
        pad = lengths_to_padding(lengths, tokens.size(1))
        packed = nn.utils.rnn.pack_padded_sequence(
            self.emb(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=tokens.size(1))
        h = self.mix(h, h, h, pad)
        lab = self.label.weight.unsqueeze(0).expand(h.size(0), -1, -1)
        z = self.read(lab, h, h, pad)
        return (z * self.out).sum(-1)


def step(model, opt, batch):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(batch["x"], batch["n"]), batch["y"])
    loss.backward()
    opt.step()
    return loss.item()
