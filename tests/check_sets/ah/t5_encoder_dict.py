"""T5 encoder straight from a HuggingFace state dict, no transformers import.

T5 folds the 1/sqrt(d_kv) into its initialisation: the checkpoint is meant to be run WITHOUT scaling the
scores. The bias table lives in block 0 and is used by every block. attention_mask: 1 = token, 0 = pad.
"""
import math
import torch


def rms_norm(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def relative_bucket(rel, num_buckets=32, max_distance=128):
    """rel = key position - query position; bidirectional: upper half of the buckets for keys to the right"""
    n = num_buckets // 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    exact = n // 2
    log = exact + (
        torch.log(rel.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (n - exact)
    ).long()
    return out + torch.where(rel < exact, rel, log.clamp(max=n - 1))


def position_bias(sd, L, device, cfg):
    pos = torch.arange(L, device=device)
    b = relative_bucket(pos[None, :] - pos[:, None], cfg["buckets"], cfg["max_distance"])
    table = sd["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    return table[b].permute(2, 0, 1).unsqueeze(0)


def self_attention(sd, prefix, x, bias, cfg):
    B, L, _ = x.shape
    H, d = cfg["heads"], cfg["d_kv"]

    def lin(name):
        return (x @ sd[f"{prefix}.{name}.weight"].T).view(B, L, H, d).transpose(1, 2)

    q, k, v = lin("q"), lin("k"), lin("v")
    scores = q @ k.transpose(-1, -2) + bias
    w = torch.softmax(scores.float(), dim=-1).to(scores.dtype)
    y = (w @ v).transpose(1, 2).reshape(B, L, H * d)
    return y @ sd[f"{prefix}.o.weight"].T


def t5_encode(sd, ids, attention_mask, cfg):
    x = sd["shared.weight"][ids]
    bias = position_bias(sd, ids.size(1), ids.device, cfg)
    pad = torch.zeros(attention_mask.shape, dtype=x.dtype, device=x.device)
    pad = pad.masked_fill(attention_mask == 0, torch.finfo(x.dtype).min)
    bias = bias + pad[:, None, None, :]
    for i in range(cfg["layers"]):
        p = f"encoder.block.{i}.layer"
        h = rms_norm(x, sd[f"{p}.0.layer_norm.weight"])
        x = x + self_attention(sd, f"{p}.0.SelfAttention", h, bias, cfg)
        h = rms_norm(x, sd[f"{p}.1.layer_norm.weight"])
        h = torch.relu(h @ sd[f"{p}.1.DenseReluDense.wi.weight"].T)
        x = x + h @ sd[f"{p}.1.DenseReluDense.wo.weight"].T
    return rms_norm(x, sd["encoder.final_layer_norm.weight"])


def random_state_dict(cfg, d_model=24, d_ff=48, vocab=40, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=g) * 0.2
    inner = cfg["heads"] * cfg["d_kv"]
    sd = {"shared.weight": torch.randn(vocab, d_model, generator=g), "encoder.final_layer_norm.weight": torch.ones(d_model)}
    sd["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = r(cfg["buckets"], cfg["heads"])
    for i in range(cfg["layers"]):
        p = f"encoder.block.{i}.layer"
        for n in "qkv":
            sd[f"{p}.0.SelfAttention.{n}.weight"] = r(inner, d_model)
        sd[f"{p}.0.SelfAttention.o.weight"] = r(d_model, inner)
        sd[f"{p}.1.DenseReluDense.wi.weight"] = r(d_ff, d_model)
        sd[f"{p}.1.DenseReluDense.wo.weight"] = r(d_model, d_ff)
        sd[f"{p}.0.layer_norm.weight"] = torch.ones(d_model)
        sd[f"{p}.1.layer_norm.weight"] = torch.ones(d_model)
    return sd


T5_TINY = dict(layers=2, heads=3, d_kv=8, buckets=32, max_distance=128)
