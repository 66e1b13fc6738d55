"""Clause tagging in contracts; the weights are shown to the lawyers in the UI."""
import math
import torch
import torch.nn as nn

LABELS = ["indemnity", "termination", "governing_law", "payment", "other"]


class BaseTagger(nn.Module):
    def num_params(self):
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class ExplainableAttention(nn.Module):
    """
    Parameters
    ----------
    d_model, n_heads : int
    p : float
        Attention dropout (training only).

    forward(x, is_token)
        x        : (batch, length, d_model)
        is_token : (batch, length) bool, False for padding; padding is never read
    returns
        output   : (batch, length, d_model)
        weights  : (batch, n_heads, length, length), the attention distribution: rows
                   sum to one (the UI and the entropy regulariser rely on it)
    """

    def __init__(self, d_model, n_heads, p=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(p)

    def forward(self, x, is_token=None):
        n, l, _ = x.shape
        q = self.w_q(x).view(n, l, self.n_heads, self.d_head).transpose(1, 2)
        k = self.w_k(x).view(n, l, self.n_heads, self.d_head).transpose(1, 2)
        v = self.w_v(x).view(n, l, self.n_heads, self.d_head).transpose(1, 2)

        score = q @ k.transpose(2, 3) / math.sqrt(self.d_head)
        if is_token is not None:
            mask = is_token.unsqueeze(1).unsqueeze(3)
            score = score.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(score, dim=-1)
        weights = self.dropout(weights)
        out = (weights @ v).transpose(1, 2).contiguous().view(n, l, -1)
        return self.w_o(out), weights


class ClauseTagger(BaseTagger):
    def __init__(self, vocab, d_model=32, n_heads=4, n_labels=len(LABELS)):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model, padding_idx=0)
        self.attn = ExplainableAttention(d_model, n_heads)
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, n_labels)

    def forward(self, ids):
        keep = ids.ne(0)
        x = self.emb(ids)
        y, w = self.attn(x, keep)
        return self.out(self.norm(x + y)), w


def entropy_penalty(weights, eps=1e-9):
    """Sharp explanations: mean row entropy."""
    return -(weights * (weights + eps).log()).sum(-1).mean()


if __name__ == "__main__":
    model = ClauseTagger(500)
    logits, w = model(torch.randint(1, 500, (2, 7)))
    print(model.num_params(), logits.shape, w.shape)
