import numpy as np


class NumpyMHA:
    """Runs the self-attention of a trained protein language model without torch.

    w is the state dict of a torch.nn.MultiheadAttention as NumPy arrays:
        in_proj_weight (3*D, D) and in_proj_bias (3*D,): the rows of q, then of k, then of v
        out_proj.weight (D, D), out_proj.bias (D,)
    residues: (B, L, D); padding: (B, L), True where there is no residue
    """

    def __init__(self, w, num_heads):
        self.w = w
        self.h = num_heads

    def __call__(self, residues, padding=None):
        B, L, D = residues.shape
        d = D // self.h
        packed = residues @ self.w["in_proj_weight"].T + self.w["in_proj_bias"]
        packed = packed.reshape(B, L, self.h, 3, d)
        q, k, v = (packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(d)
        if padding is not None:
            logits = np.where(padding[:, None, None, :], -np.inf, logits)
        logits = logits - logits.max(axis=-1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=-1, keepdims=True)
        out = (p @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
        return out @ self.w["out_proj.weight"].T + self.w["out_proj.bias"]


def random_weights(D=24, seed=0):
    r = np.random.default_rng(seed)
    return {"in_proj_weight": r.normal(size=(3 * D, D)) / np.sqrt(D), "in_proj_bias": r.normal(size=3 * D) * 0.1,
            "out_proj.weight": r.normal(size=(D, D)) / np.sqrt(D), "out_proj.bias": np.zeros(D)}
