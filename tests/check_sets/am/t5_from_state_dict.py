"""T5 encoder straight from a state dict (keys as in transformers). No nn.Module.

Remember: T5 does not divide the scores by sqrt(d); the initialisation of q takes care of it.
"""
import math

import torch
import torch.nn.functional as F


def rms_norm(x, w, eps=1e-6):
    return w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def relative_bucket(rel, n_buckets=32, max_distance=128):
    """rel = key position - query position, bidirectional"""
    n_buckets //= 2
    out = (rel > 0).long() * n_buckets
    rel = rel.abs()
    exact = n_buckets // 2
    far = exact + (torch.log(rel.clamp(min=1).float() / exact) / math.log(max_distance / exact)
                   * (n_buckets - exact)).long()
    far = far.clamp(max=n_buckets - 1)
    return out + torch.where(rel < exact, rel, far)


def position_bias(sd, n, n_buckets=32):
    table = sd["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    pos = torch.arange(n)
    rel = pos[None, :] - pos[:, None]
    return table[relative_bucket(rel, n_buckets)].permute(2, 0, 1)[None]


def t5_self_attention(x, sd, prefix, n_heads, bias, attention_mask=None):
    """x [b, n, c]; attention_mask [b, n] with 1 = token and 0 = padding"""
    b, n, _ = x.shape

    def proj(name):
        return F.linear(x, sd[f"{prefix}.{name}.weight"]).view(b, n, n_heads, -1).transpose(1, 2)

    q, k, v = proj("q"), proj("k"), proj("v")
    scores = q @ k.transpose(2, 3)
    extra = bias
    if attention_mask is not None:
        neg = torch.finfo(x.dtype).min
        extra = extra.masked_fill(attention_mask[:, None, None, :] == 0, neg)
    scores = scores + extra
    w = F.softmax(scores.float(), dim=-1).type_as(scores)
    o = (w @ v).transpose(1, 2).reshape(b, n, -1)
    return F.linear(o, sd[f"{prefix}.o.weight"])


def feed_forward(x, sd, prefix):
    h = F.relu(F.linear(x, sd[f"{prefix}.wi.weight"]))
    return F.linear(h, sd[f"{prefix}.wo.weight"])


@torch.no_grad()
def encode(ids, sd, n_layers, n_heads, attention_mask=None):
    x = sd["shared.weight"][ids]
    bias = position_bias(sd, ids.shape[1])
    for i in range(n_layers):
        p = f"encoder.block.{i}.layer"
        h = rms_norm(x, sd[f"{p}.0.layer_norm.weight"])
        x = x + t5_self_attention(h, sd, f"{p}.0.SelfAttention", n_heads, bias, attention_mask)
        h = rms_norm(x, sd[f"{p}.1.layer_norm.weight"])
        x = x + feed_forward(h, sd, f"{p}.1.DenseReluDense")
    return rms_norm(x, sd["encoder.final_layer_norm.weight"])


def sentence_vectors(ids, sd, n_layers, n_heads, attention_mask):
    h = encode(ids, sd, n_layers, n_heads, attention_mask)
    m = attention_mask[..., None].to(h.dtype)
    return F.normalize((h * m).sum(1) / m.sum(1), dim=-1)
