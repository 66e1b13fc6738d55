"""BertSelfAttention + BertSelfOutput without PyTorch (inference only)."""
import numpy as np


def linear(x, sd, name):
    """torch.nn.Linear: weight is (out, in)."""
    return x @ sd[name + ".weight"].T + sd[name + ".bias"]


def layer_norm(x, sd, name, eps=1e-12):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * sd[name + ".weight"] + sd[name + ".bias"]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def bert_self_attention(hidden, attention_mask, sd, num_heads=12):
    """Attention sublayer of one BERT layer, post-norm.

    hidden          (B, L, D) float32
    attention_mask  (B, L), 1 = token, 0 = padding; position 0 is [CLS], always 1
    sd              state dict with self.query / self.key / self.value / output.dense
                    (weight (D, D), bias (D,)) and output.LayerNorm
    returns         (B, L, D): LayerNorm(dense(context) + hidden), and the
                    probabilities (B, heads, L, L)
    """
    B, L, D = hidden.shape
    d = D // num_heads

    def split(t):
        return t.reshape(B, L, num_heads, d).transpose(0, 2, 1, 3)

    q = split(linear(hidden, sd, "self.query"))
    k = split(linear(hidden, sd, "self.key"))
    v = split(linear(hidden, sd, "self.value"))

    extended = (1.0 - attention_mask[:, None, None, :].astype(np.float32)) * np.finfo(np.float32).min
    probs = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(d).astype(np.float32) + extended)
    context = (probs @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return layer_norm(linear(context, sd, "output.dense") + hidden, sd, "output.LayerNorm"), probs
