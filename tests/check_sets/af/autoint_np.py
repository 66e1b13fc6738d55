"""AutoInt scoring in NumPy, for the serving box that has no GPU and no torch.

The interacting layer: every feature field is a token, multi-head self attention between the fields of
one impression, residual, ReLU.  (The AutoInt paper has no 1/sqrt(d); `use_scale` switches it on, our
trained models use it.)
"""
import numpy as np


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=axis, keepdims=True)


class InteractingLayer:
    """
    Parameters
    ----------
    weights : dict with W_q, W_k, W_v (embed, heads * att) and optionally W_res (embed, heads * att).
        Columns [h * att, (h + 1) * att) belong to head h.
    """

    def __init__(self, weights, num_heads, use_scale=True):
        self.w = weights
        self.num_heads = num_heads
        self.att = weights["W_q"].shape[1] // num_heads
        self.use_scale = use_scale

    def __call__(self, X):
        """X (batch, fields, embed) -> (batch, fields, heads * att)"""
        B, F, _ = X.shape
        Q = (X @ self.w["W_q"]).reshape(B, self.num_heads, F, self.att)
        K = (X @ self.w["W_k"]).reshape(B, self.num_heads, F, self.att)
        V = (X @ self.w["W_v"]).reshape(B, self.num_heads, F, self.att)

        scores = np.matmul(Q, np.swapaxes(K, 2, 3))
        if self.use_scale:
            scores = scores / np.sqrt(self.att)
        out = np.matmul(softmax(scores), V)
        out = np.transpose(out, (0, 2, 1, 3)).reshape(B, F, self.num_heads * self.att)
        if "W_res" in self.w:
            out = out + X @ self.w["W_res"]
        return np.maximum(out, 0)


class FieldEmbedder:
    def __init__(self, tables):
        self.tables = tables            # one (cardinality, embed) array per field

    def __call__(self, ids):
        return np.stack([t[ids[:, f]] for f, t in enumerate(self.tables)], axis=1)


class AutoIntScorer:
    def __init__(self, embedder, layers, w_out, b_out):
        self.embedder, self.layers = embedder, layers
        self.w_out, self.b_out = w_out, b_out

    def __call__(self, ids):
        X = self.embedder(ids)
        for layer in self.layers:
            X = layer(X)
        logit = X.reshape(X.shape[0], -1) @ self.w_out + self.b_out
        return 1.0 / (1.0 + np.exp(-logit))


def random_weights(rng, d_in, heads, att):
    g = lambda: rng.normal(0, d_in ** -0.5, (d_in, heads * att))
    return {"W_q": g(), "W_k": g(), "W_v": g(), "W_res": g()}
