"""Set Transformer for point-of-sale baskets: trained in PyTorch, served in NumPy.

`BasketPooler` is the training module, `NumpyPMA` reads its state dict and gives the same
numbers on the tills, which have no torch.
"""
import io

import numpy as np

try:
    import torch
    from torch import nn
except ImportError:      # on the till
    torch, nn = None, None


class NumpyPMA:
    """Pooling by multi-head attention (Lee et al. 2019): seeds attend to the items of a basket.

    state: dict of arrays with the names of nn.MultiheadAttention under `attn.`, plus `seeds`.
    __call__(items, n_items): items (B, N, dim) padded with anything, n_items (B,) the number of
    real items, which come first.  -> (B, n_seeds, dim).  An empty basket pools to zeros before the
    output projection.
    """

    def __init__(self, state, num_heads):
        self.h = num_heads
        self.seeds = state["seeds"]
        self.w_in, self.b_in = state["attn.in_proj_weight"], state["attn.in_proj_bias"]
        self.w_out, self.b_out = state["attn.out_proj.weight"], state["attn.out_proj.bias"]

    def _heads(self, x):
        *lead, n, dim = x.shape
        return np.moveaxis(x.reshape(*lead, n, self.h, dim // self.h), -2, -3)

    def __call__(self, items, n_items):
        dim = self.seeds.shape[-1]
        wq, wk, wv = np.split(self.w_in, 3)
        bq, bk, bv = np.split(self.b_in, 3)
        real = np.arange(items.shape[1])[None, :] < np.asarray(n_items)[:, None]      # B, N
        items = np.where(real[..., None], items, 0)

        q = self._heads(self.seeds @ wq.T + bq)[None]                                 # 1, h, s, d
        k = self._heads(items @ wk.T + bk)                                            # B, h, N, d
        v = self._heads(items @ wv.T + bv)
        logits = q @ np.swapaxes(k, -1, -2) * (dim // self.h) ** -0.5
        keep = real[:, None, None, :]
        peak = np.max(logits, axis=-1, keepdims=True, where=keep, initial=-1e30)
        num = np.exp(np.where(keep, logits - peak, -np.inf))
        weights = num / np.maximum(num.sum(-1, keepdims=True), 1e-30)
        pooled = np.moveaxis(weights @ v, -3, -2).reshape(len(items), -1, dim)
        return pooled @ self.w_out.T + self.b_out


if nn is not None:

    class BasketPooler(nn.Module):
        def __init__(self, dim=16, n_seeds=2, num_heads=4):
            super().__init__()
            self.seeds = nn.Parameter(torch.randn(n_seeds, dim))
            self.attn = nn.MultiheadAttention(dim, num_heads, batch_first=True)

        def forward(self, items, n_items):
            pad = torch.arange(items.shape[1]) >= n_items[:, None]
            q = self.seeds.expand(len(items), -1, -1)
            return self.attn(q, items, items, key_padding_mask=pad, need_weights=False)[0]


def export(module, f):
    np.savez(f, **{k: v.detach().cpu().numpy() for k, v in module.state_dict().items()})


def load(f, num_heads):
    with np.load(f) as z:
        return NumpyPMA(dict(z), num_heads)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = BasketPooler().eval()
    buf = io.BytesIO()
    export(net, buf)
    buf.seek(0)
    served = load(buf, num_heads=4)
    x, n = torch.randn(3, 6, 16), torch.tensor([6, 2, 4])
    with torch.no_grad():
        print(np.abs(net(x, n).numpy() - served(x.numpy(), n.numpy())).max())
