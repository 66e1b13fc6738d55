"""Decoder attention with a key/value cache, used by chat.py."""
import math
import torch
import torch.nn as nn


class CausalSelfAttention(nn.Module):
    """
    forward(x, past=None) -> (y, present)

    x     (B, T, C)  the new tokens (a prompt or a single token)
    past  None or (k, v), each (B, H, P, C/H), the tokens seen before
    y     (B, T, C)
    present is (k, v) with P + T tokens, to be passed as `past` next time.
    New token t reads all P old tokens and the new ones 0..t.
    """

    def __init__(self, n_embd=48, n_head=4, dropout=0.1):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_drop = nn.Dropout(dropout)
        self.resid_drop = nn.Dropout(dropout)
        self.n_head = n_head

    def forward(self, x, past=None):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
                   for t in self.c_attn(x).split(C, dim=2))
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        S = k.size(2)

        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        when_q = torch.arange(S - T, S, device=x.device)
        when_k = torch.arange(S, device=x.device)
        att = att.masked_fill(when_k[None, :] > when_q[:, None], float("-inf"))
        att = self.attn_drop(torch.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.c_proj(y)), (k, v)


@torch.no_grad()
def roll(layer, x, chunk=1):
    """Run x through the layer piece by piece; same result as in one go (eval mode)."""
    out, past = [], None
    for piece in x.split(chunk, dim=1):
        y, past = layer(piece, past)
        out.append(y)
    return torch.cat(out, dim=1)
