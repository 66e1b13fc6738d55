"""DINO ViT-S attention maps on a Raspberry Pi: NumPy only, one image at a time.

`vit_layer` is the pre-norm layer of timm (names as in the state dict: norm1, attn.qkv, attn.proj, ...):
softmax(q k^T / sqrt(head_dim)) v, then the MLP. `cls_attention` gives the map [heads, gh, gw] of
the class token on the patches, which we overlay on the camera image.
"""
import numpy as np
from math import sqrt, pi


def _ln(x, w, b):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * w + b


def _gelu(x):
    return x * 0.5 * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))


def _softmax(x):
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


def _qkv(x, sd, pre, heads):
    n, d = x.shape
    z = x @ sd[pre + "attn.qkv.weight"].T + sd[pre + "attn.qkv.bias"]
    return z.reshape(n, 3, heads, d // heads).transpose(1, 2, 0, 3)   # 3, heads, n, head_dim


def attention_weights(x, sd, pre, heads):
    q, k, v = _qkv(x, sd, pre, heads)
    return _softmax(np.einsum("hid,hjd->hij", q, k)), v


def vit_layer(x, sd, pre="blocks.0.", heads=6):
    """x [tokens, dim] -> [tokens, dim]"""
    y = _ln(x, sd[pre + "norm1.weight"], sd[pre + "norm1.bias"])
    w, v = attention_weights(y, sd, pre, heads)
    y = np.einsum("hij,hjd->ihd", w, v).reshape(x.shape)
    x = x + y @ sd[pre + "attn.proj.weight"].T + sd[pre + "attn.proj.bias"]
    y = _ln(x, sd[pre + "norm2.weight"], sd[pre + "norm2.bias"])
    y = _gelu(y @ sd[pre + "mlp.fc1.weight"].T + sd[pre + "mlp.fc1.bias"])
    return x + y @ sd[pre + "mlp.fc2.weight"].T + sd[pre + "mlp.fc2.bias"]


def cls_attention(x, sd, pre, heads, grid):
    y = _ln(x, sd[pre + "norm1.weight"], sd[pre + "norm1.bias"])
    w, _ = attention_weights(y, sd, pre, heads)
    return w[:, 0, 1:].reshape(heads, *grid)


def fake_state_dict(dim, pre="blocks.0.", seed=0):
    r = np.random.default_rng(seed)
    sd = {}
    for name, (o, i) in {"attn.qkv": (3 * dim, dim), "attn.proj": (dim, dim),
                         "mlp.fc1": (4 * dim, dim), "mlp.fc2": (dim, 4 * dim)}.items():
        sd[f"{pre}{name}.weight"] = r.normal(size=(o, i)) / sqrt(i)
        sd[f"{pre}{name}.bias"] = r.normal(size=o) * 0.1
    for name in ("norm1", "norm2"):
        sd[f"{pre}{name}.weight"], sd[f"{pre}{name}.bias"] = np.ones(dim), np.zeros(dim)
    return sd


if __name__ == "__main__":
    sd = fake_state_dict(24)
    tok = np.random.default_rng(2).normal(size=(1 + 12, 24))
    print(vit_layer(tok, sd, heads=3).shape, cls_attention(tok, sd, "blocks.0.", 3, (3, 4)).shape)
