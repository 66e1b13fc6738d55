"""Run a T5 decoder block straight from a flat state dict (numpy or torch tensors).

As in Mesh-TF T5 there is NO 1/sqrt(d_kv) in the scores: T5 folds it into the initialisation
of q.  The relative bias of block 0 is shared by all blocks.
masks here are bool with True = may be attended.
"""
import math
import torch


def bucket(rel, bidirectional, num_buckets=32, max_distance=128):
    """rel = key position - query position"""
    out = torch.zeros_like(rel)
    if bidirectional:
        num_buckets //= 2
        out = out + (rel > 0).long() * num_buckets
        n = rel.abs()
    else:
        n = (-rel).clamp(min=0)
    exact = num_buckets // 2
    big = exact + (torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact)
                   * (num_buckets - exact)).long()
    return out + torch.where(n < exact, n, big.clamp(max=num_buckets - 1))


def rms(x, w, eps=1e-6):
    return w * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps).type_as(x))


def position_bias(sd, lq, lk, bidirectional, stack):
    table = sd[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    rel = torch.arange(lk)[None, :] - torch.arange(lk - lq, lk)[:, None]
    return table[bucket(rel, bidirectional, table.shape[0])].permute(2, 0, 1)[None]


def t5_attend(sd, prefix, x, mem=None, bias=None, mask=None, n_heads=8):
    """x (B, Lq, d), mem (B, Lk, d) or None for self-attention."""
    src = x if mem is None else mem
    B, Lq, _ = x.shape

    def heads(t, name):
        y = t @ sd[f"{prefix}.{name}.weight"].T
        return y.view(B, t.shape[1], n_heads, -1).transpose(1, 2)

    q, k, v = heads(x, "q"), heads(src, "k"), heads(src, "v")
    s = q @ k.transpose(2, 3)
    if bias is not None:
        s = s + bias
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    p = torch.softmax(s.float(), dim=-1).type_as(s)
    o = (p @ v).transpose(1, 2).reshape(B, Lq, -1)
    return o @ sd[f"{prefix}.o.weight"].T


def decoder_block(sd, i, x, enc, enc_keep, n_heads):
    p = f"decoder.block.{i}"
    L = x.shape[1]
    causal = torch.ones(L, L, dtype=torch.bool).tril()[None, None]
    y = rms(x, sd[f"{p}.layer.0.layer_norm.weight"])
    x = x + t5_attend(sd, f"{p}.layer.0.SelfAttention", y, bias=position_bias(sd, L, L, False, "decoder"),
                      mask=causal, n_heads=n_heads)
    y = rms(x, sd[f"{p}.layer.1.layer_norm.weight"])
    x = x + t5_attend(sd, f"{p}.layer.1.EncDecAttention", y, enc, mask=enc_keep[:, None, None, :], n_heads=n_heads)
    y = rms(x, sd[f"{p}.layer.2.layer_norm.weight"])
    h = torch.relu(y @ sd[f"{p}.layer.2.DenseReluDense.wi.weight"].T)
    return x + h @ sd[f"{p}.layer.2.DenseReluDense.wo.weight"].T


def fake_dict(d=16, n_heads=4, d_kv=4, ff=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=g) * 0.3
    sd = {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": r(32, n_heads)}
    for j, kind in enumerate(("SelfAttention", "EncDecAttention")):
        for w in "qkv":
            sd[f"decoder.block.0.layer.{j}.{kind}.{w}.weight"] = r(n_heads * d_kv, d)
        sd[f"decoder.block.0.layer.{j}.{kind}.o.weight"] = r(d, n_heads * d_kv)
    for j in range(3):
        sd[f"decoder.block.0.layer.{j}.layer_norm.weight"] = torch.ones(d)
    sd["decoder.block.0.layer.2.DenseReluDense.wi.weight"] = r(ff, d)
    sd["decoder.block.0.layer.2.DenseReluDense.wo.weight"] = r(d, ff)
    return sd


if __name__ == "__main__":
    keep = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    print(decoder_block(fake_dict(), 0, torch.randn(2, 4, 16), torch.randn(2, 5, 16), keep, 4).shape)
