"""Small chat model, week 2: attention heads with a key/value history.

One `Head` per head so that the class can print its weights.  In a dialogue the
new turn (T tokens) is appended to the history (P tokens); every new token sees
the whole history and the new tokens up to itself.  `token_mask` [B, P + T] is
True for tokens and False for padding, which is never attended to.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    def __init__(self, d_in, d_head):
        super().__init__()
        self.key = nn.Linear(d_in, d_head, bias=False)
        self.query = nn.Linear(d_in, d_head, bias=False)
        self.value = nn.Linear(d_in, d_head, bias=False)
        self.d_head = d_head

    def forward(self, x, past=None, token_mask=None):
        q, k, v = self.query(x), self.key(x), self.value(x)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        T, S = q.size(1), k.size(1)

        wei = q @ k.transpose(1, 2) / self.d_head**0.5        # B, T, S
        tril = torch.ones(T, S, dtype=torch.bool, device=x.device).tril()
        wei = wei.masked_fill(~tril, -1e9)
        if token_mask is not None:
            wei = wei.masked_fill(token_mask.unsqueeze(1), -1e9)
        wei = F.softmax(wei, dim=-1)
        return wei @ v, (k, v)


class ChatAttention(nn.Module):
    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        self.heads = [Head(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.proj = nn.Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, history=None, token_mask=None):
        """x [B, T, d_model] -> (y, new history: one (k, v) pair per head)"""
        h = self.norm(x)
        outs, new_history = [], []
        for i, head in enumerate(self.heads):
            o, kv = head(h, None if history is None else history[i], token_mask)
            outs.append(o)
            new_history.append(kv)
        return x + self.proj(torch.cat(outs, dim=-1)), new_history


if __name__ == "__main__":
    torch.manual_seed(1)
    att = ChatAttention()
    y, hist = att(torch.randn(2, 4, 24))
    y, hist = att(torch.randn(2, 3, 24), hist)
    print(y.shape, hist[0][0].shape)
