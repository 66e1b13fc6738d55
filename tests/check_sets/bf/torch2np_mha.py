"""Run a trained torch.nn.MultiheadAttention on a board without torch.

``export`` (on the PC) turns the module into an .npz dict, ``NumpyMHA`` runs it.
in_proj_weight of torch is (3E, E): first all of q, then k, then v; y = x W^T + b.
"""
import numpy as np
import torch


def export(mha: torch.nn.MultiheadAttention) -> dict:
    sd = {k: v.detach().cpu().numpy() for k, v in mha.state_dict().items()}
    if mha.bias_k is not None or "q_proj_weight" in sd:
        raise NotImplementedError("only plain self-attention modules")
    sd["heads"] = np.int64(mha.num_heads)
    return sd


class NumpyMHA:
    """Batch first: x (B, L, E). Masks follow torch: True = NOT allowed."""

    def __init__(self, sd):
        self.h = int(sd["heads"])
        self.wq, self.wk, self.wv = np.split(sd["in_proj_weight"], 3, axis=0)
        self.bq, self.bk, self.bv = np.split(sd["in_proj_bias"], 3)
        self.wo, self.bo = sd["out_proj.weight"], sd["out_proj.bias"]

    def _proj(self, x, w, b):
        y = x @ w.T + b
        return y.reshape(*y.shape[:2], self.h, -1).transpose(0, 2, 1, 3)

    def __call__(self, x, ctx=None, key_padding_mask=None, attn_mask=None):
        ctx = x if ctx is None else ctx
        q = self._proj(x, self.wq, self.bq)
        k = self._proj(ctx, self.wk, self.bk)
        v = self._proj(ctx, self.wv, self.bv)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
        if attn_mask is not None:
            s = np.where(attn_mask, -np.inf, s)
        if key_padding_mask is not None:
            s = np.where(key_padding_mask[:, None, None, :], -np.inf, s)
        s = np.exp(s - s.max(-1, keepdims=True))
        p = s / s.sum(-1, keepdims=True)
        y = (p @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return y @ self.wo.T + self.bo, p.mean(1)


def self_test(e=12, h=3):
    torch.manual_seed(0)
    m = torch.nn.MultiheadAttention(e, h, batch_first=True).eval()
    x = torch.randn(2, 5, e)
    a, _ = NumpyMHA(export(m))(x.numpy())
    return float(np.abs(a - m(x, x, x)[0].detach().numpy()).max())


if __name__ == "__main__":
    print("max difference to torch:", self_test())
