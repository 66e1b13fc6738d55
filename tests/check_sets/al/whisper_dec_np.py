"""Whisper text decoder, NumPy port.  Weights: openai names ("decoder.blocks.0.attn.query.weight", ...).

The key projections of Whisper have no bias.  Audio keys and values are computed once for
every audio segment (`start`) and then reused at all steps.
"""
import numpy as np
from math import erf

ERF = np.frompyfunc(erf, 1, 1)


def _gelu(a):
    return 0.5 * a * (1 + ERF(a / 2 ** 0.5).astype(a.dtype))


def _ln(x, w, n):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * w[n + ".weight"] + w[n + ".bias"]


def _lin(x, w, n):
    y = x @ w[n + ".weight"].T
    return y + w[n + ".bias"] if n + ".bias" in w else y


class WhisperDecoderNP:
    def __init__(self, w, n_layer, n_head):
        self.w, self.n_layer, self.n_head = w, n_layer, n_head

    # state: list of dicts, one for each layer
    def start(self, audio):
        """audio [B, frames, D] from the encoder."""
        self.state = []
        for i in range(self.n_layer):
            p = f"decoder.blocks.{i}.cross_attn."
            self.state.append(dict(xk=_lin(audio, self.w, p + "key"), xv=_lin(audio, self.w, p + "value"),
                                   k=None, v=None))
        self.pos = 0

    def attention(self, q, k, v, first=None):
        """q [B, n, D], k and v [B, m, D].  first: absolute position of q's first token for causal
        attention (keys start at position 0); None means every key may be seen."""
        B, n, D = q.shape
        m = k.shape[1]
        s = (D // self.n_head) ** -0.25
        q = q.reshape(B, n, self.n_head, -1).transpose(0, 2, 1, 3) * s
        k = k.reshape(B, m, self.n_head, -1).transpose(0, 2, 3, 1) * s
        v = v.reshape(B, m, self.n_head, -1).transpose(0, 2, 1, 3)
        qk = q @ k
        if first is not None:
            late = np.arange(m) > (first + np.arange(n))[:, None]
            qk[..., late] = -np.inf
        qk -= qk.max(-1, keepdims=True)
        np.exp(qk, out=qk)
        qk /= qk.sum(-1, keepdims=True)
        return (qk @ v).transpose(0, 2, 1, 3).reshape(B, n, D)

    def step(self, tokens):
        """tokens [B, n] (n > 1 for the prompt) -> logits [B, n, vocab]."""
        w = self.w
        n = tokens.shape[1]
        x = w["decoder.token_embedding.weight"][tokens]
        x = x + w["decoder.positional_embedding"][self.pos:self.pos + n]
        for i, st in enumerate(self.state):
            p = f"decoder.blocks.{i}."
            h = _ln(x, w, p + "attn_ln")
            k, v = _lin(h, w, p + "attn.key"), _lin(h, w, p + "attn.value")
            if st["k"] is not None:
                k = np.concatenate((st["k"], k), 1)
                v = np.concatenate((st["v"], v), 1)
            st["k"], st["v"] = k, v
            a = self.attention(_lin(h, w, p + "attn.query"), k, v, first=self.pos)
            x = x + _lin(a, w, p + "attn.out")
            h = _ln(x, w, p + "cross_attn_ln")
            a = self.attention(_lin(h, w, p + "cross_attn.query"), st["xk"], st["xv"])
            x = x + _lin(a, w, p + "cross_attn.out")
            h = _ln(x, w, p + "mlp_ln")
            x = x + _lin(_gelu(_lin(h, w, p + "mlp.0")), w, p + "mlp.2")
        self.pos += n
        return _ln(x, w, "decoder.ln") @ w["decoder.token_embedding.weight"].T
