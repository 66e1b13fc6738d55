import torch
import torch.nn as nn


class CachedCausalAttention(nn.Module):
    """GPT attention which can continue from a cache of keys and values.

    Args:
        x: (B, T, C) new tokens
        cache: None or a pair (k, v) of shape (B, n_head, P, head_dim) with the
            P tokens that came before
    Each new token attends to all cached tokens and, causally, to the new ones.
    Returns (B, T, C) and the extended cache, so that feeding a text in pieces
    gives the same result as feeding it at once.
    """

    def __init__(self, n_embd, n_head, resid_pdrop=0.1):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.resid_drop = nn.Dropout(resid_pdrop)

    def forward(self, x, cache=None):
        B, T, C = x.size()
        hs = C // self.n_head
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, hs).transpose(1, 2)
        k = k.view(B, T, self.n_head, hs).transpose(1, 2)
        v = v.view(B, T, self.n_head, hs).transpose(1, 2)
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        S = k.size(2)

        att = (q @ k.transpose(-2, -1)) * (1.0 / hs ** 0.5)
        mask = torch.tril(torch.ones(T, S, dtype=torch.bool, device=x.device))
        att = att.masked_fill(~mask, float('-inf'))
        att = att.softmax(dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.c_proj(y)), (k, v)


@torch.no_grad()
def run_in_pieces(attn, x, piece=4):
    cache, outs = None, []
    for chunk in x.split(piece, dim=1):
        y, cache = attn(chunk, cache)
        outs.append(y)
    return torch.cat(outs, dim=1)


if __name__ == '__main__':
    attn = CachedCausalAttention(32, 4).eval()
    print(run_in_pieces(attn, torch.randn(2, 10, 32)).shape)
