"""Run a trained nn.MultiheadAttention without torch at inference time.

The flight computer of the cubesat has NumPy only; on ground we export the
state_dict and compare.
"""
import numpy as np

try:
    import torch
except ImportError:  # on board
    torch = None


def export(mha):
    """nn.MultiheadAttention -> dict of float64 arrays"""
    return {k: p.detach().cpu().double().numpy() for k, p in mha.state_dict().items()}


def _softmax(x):
    hi = x.max(-1, keepdims=True)
    hi = np.where(np.isfinite(hi), hi, 0.0)
    e = np.exp(x - hi)
    return e / e.sum(-1, keepdims=True)


class OnboardMHA:
    """Same call as torch with batch_first=True.

    key_padding_mask (B, S): True = ignore the key (the torch convention)
    attn_mask (T, S): bool True = may not look, or float, added to the scores
    """

    def __init__(self, state, num_heads):
        self.nh = num_heads
        self.Wq, self.Wk, self.Wv = np.split(state["in_proj_weight"], 3, axis=0)
        self.bq, self.bk, self.bv = np.split(state["in_proj_bias"], 3)
        self.Wo, self.bo = state["out_proj.weight"], state["out_proj.bias"]

    def _heads(self, x):
        b, t, e = x.shape
        return x.reshape(b, t, self.nh, e // self.nh).transpose(0, 2, 1, 3)

    def __call__(self, query, key, value, key_padding_mask=None, attn_mask=None):
        q = self._heads(query @ self.Wq.T + self.bq)
        k = self._heads(key @ self.Wk.T + self.bk)
        v = self._heads(value @ self.Wv.T + self.bv)
        s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        if attn_mask is not None:
            if attn_mask.dtype == bool:
                s = np.where(attn_mask, -np.inf, s)
            else:
                s = s + attn_mask
        if key_padding_mask is not None:
            s = np.where(key_padding_mask[:, None, None, :], -np.inf, s)
        p = _softmax(s)
        o = (p @ v).transpose(0, 2, 1, 3)
        o = o.reshape(*query.shape[:2], -1) @ self.Wo.T + self.bo
        return o, p.mean(axis=1)


def selftest(dim=24, heads=3, seed=0):
    torch.manual_seed(seed)
    ref = torch.nn.MultiheadAttention(dim, heads, batch_first=True).double().eval()
    x, y = torch.randn(2, 5, dim).double(), torch.randn(2, 7, dim).double()
    want, ww = ref(x, y, y)
    got, gw = OnboardMHA(export(ref), heads)(x.numpy(), y.numpy(), y.numpy())
    return abs(want.detach().numpy() - got).max(), abs(ww.detach().numpy() - gw).max()


if __name__ == "__main__":
    print("max error", selftest())
