"""Answer sentence selection: question tokens attend over the passage, heads folded in the batch."""
import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    """
    question (B, Lq, D), passage (B, Lp, D), passage_mask (B, Lp) bool: True = padding of that passage
    (at least one real token per passage). Returns (B, Lq, D).
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)

    def fold(self, x):
        B, L, _ = x.shape
        x = x.view(B, L, self.n_heads, self.d_k).transpose(1, 2)
        return x.reshape(B * self.n_heads, L, self.d_k)

    def unfold(self, x, B):
        L = x.size(1)
        x = x.view(B, self.n_heads, L, self.d_k).transpose(1, 2)
        return x.reshape(B, L, self.n_heads * self.d_k)

    def forward(self, question, passage, passage_mask):
        B = question.size(0)
        q, k, v = self.fold(self.wq(question)), self.fold(self.wk(passage)), self.fold(self.wv(passage))
        attn = torch.bmm(q, k.transpose(1, 2)) / self.d_k ** 0.5
        mask = passage_mask.unsqueeze(1).repeat(self.n_heads, 1, 1)
        attn = attn.masked_fill(mask, -1e30).softmax(dim=2)
        return self.fc(self.unfold(torch.bmm(attn, v), B))


class Matcher(nn.Module):
    """Scores (B,) of question/passage pairs; q_mask and p_mask (B, L) with True = padding."""

    def __init__(self, vocab=50, d_model=32, n_heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.att = CrossAttention(d_model, n_heads)
        self.score = nn.Sequential(nn.Linear(2 * d_model, d_model), nn.ReLU(), nn.Linear(d_model, 1))

    def forward(self, q_ids, p_ids, q_mask, p_mask):
        q = self.emb(q_ids)
        read = self.att(q, self.emb(p_ids), p_mask)
        keep = (~q_mask).unsqueeze(-1).float()
        both = (torch.cat([q, read], -1) * keep).sum(1) / keep.sum(1)
        return self.score(both).squeeze(-1)
