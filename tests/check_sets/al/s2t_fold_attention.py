"""Attention of our speech translation toolkit, tensors are time first [T, B, D] as in fairseq.

Heads are folded into the batch ([B*H, T, d], batch-major).  The class serves encoder, decoder (causal)
and encoder-decoder attention, with an `incremental` dict for search.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FoldedAttention(nn.Module):
    """key_padding_mask: [B, S], True = padding.  causal: key positions after the query are hidden;
    with an incremental state the new queries come after the stored keys."""

    def __init__(self, dim, heads, dropout=0.0, cross=False):
        super().__init__()
        self.dim, self.heads, self.dropout, self.cross = dim, heads, dropout, cross
        self.scaling = (dim // heads) ** -0.5
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))

    def _fold(self, x, B):
        return x.contiguous().view(-1, B * self.heads, self.dim // self.heads).transpose(0, 1)

    def forward(self, query, memory=None, key_padding_mask=None, causal=False, incremental=None):
        T, B, _ = query.shape
        q = self._fold(self.q_proj(query) * self.scaling, B)
        if self.cross and incremental is not None and "k" in incremental:
            k, v = incremental["k"], incremental["v"]
        else:
            src = memory if self.cross else query
            k, v = self._fold(self.k_proj(src), B), self._fold(self.v_proj(src), B)
            if incremental is not None:
                if not self.cross and "k" in incremental:
                    k = torch.cat([incremental["k"], k], dim=1)
                    v = torch.cat([incremental["v"], v], dim=1)
                incremental["k"], incremental["v"] = k, v
        S = k.size(1)
        attn = torch.bmm(q, k.transpose(1, 2))                       # [B*H, T, S]
        if causal:
            future = torch.ones(T, S, dtype=torch.bool, device=q.device).triu(1 + S - T)
            attn = attn.masked_fill(future, float("-inf"))
        if key_padding_mask is not None:
            attn = attn.view(B, self.heads, T, S)
            attn = attn.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
            attn = attn.view(B * self.heads, T, S)
        probs = F.softmax(attn.float(), dim=-1).type_as(attn)
        ctx = torch.bmm(F.dropout(probs, self.dropout, self.training), v)
        ctx = ctx.transpose(0, 1).contiguous().view(T, B, self.dim)
        return self.out_proj(ctx), probs.view(B, self.heads, T, S).mean(1)


class S2TDecoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn, dropout=0.1):
        super().__init__()
        self.self_attn = FoldedAttention(dim, heads, dropout)
        self.src_attn = FoldedAttention(dim, heads, dropout, cross=True)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim)

    def forward(self, x, enc, enc_pad, state=None):
        inc_s = inc_x = None
        if state is not None:
            inc_s, inc_x = state.setdefault("self", {}), state.setdefault("cross", {})
        x = x + self.self_attn(self.n1(x), causal=True, incremental=inc_s)[0]
        y, align = self.src_attn(self.n2(x), enc, enc_pad, incremental=inc_x)
        x = x + y
        return x + self.fc2(F.relu(self.fc1(self.n3(x)))), align


def reorder(state, beam_index, heads):
    """Rearrange all stored keys and values after a step of beam search (beam_index [B])."""
    for layer in state.values():
        for name, t in layer.items():
            layer[name] = t.view(-1, heads, *t.shape[1:])[beam_index].flatten(0, 1)
