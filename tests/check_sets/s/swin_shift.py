"""(Shifted) window attention on one feature map; vmap over the batch."""
import jax
import jax.numpy as jnp
import numpy as np


def relative_index(w):
    yx = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij"), -1).reshape(-1, 2)
    rel = yx[:, None] - yx[None] + w - 1
    return rel[..., 0] * (2 * w - 1) + rel[..., 1]


def regions(H, W, w, shift):
    """Which piece of the original map a pixel of the rolled map belongs to."""
    def cut(n):
        i = np.arange(n)
        return (i >= n - w).astype(int) + (i >= n - shift).astype(int)
    return cut(H)[:, None] * 3 + cut(W)[None, :]


def to_windows(x, w):
    H, W = x.shape[:2]
    x = x.reshape(H // w, w, W // w, w, -1)
    return x.transpose(0, 2, 1, 3, 4).reshape(-1, w * w, x.shape[-1])


def from_windows(x, H, W, w):
    x = x.reshape(H // w, W // w, w, w, -1)
    return x.transpose(0, 2, 1, 3, 4).reshape(H, W, -1)


def window_attention(p, x, *, w, heads, shift=0):
    """x (H, W, C), H and W divisible by w.
    p: {"qkv": (C, 3, heads, d), "table": ((2w-1)^2, heads), "out": (heads, d, C)}"""
    H, W, _ = x.shape
    y = jnp.roll(x, (-shift, -shift), (0, 1)) if shift else x
    y = to_windows(y, w)
    q, k, v = jnp.einsum("gnc,cthd->tghnd", y, p["qkv"])
    s = jnp.einsum("ghnd,ghmd->ghnm", q * q.shape[-1] ** -0.5, k)
    s += p["table"][relative_index(w)].transpose(2, 0, 1)
    if shift:
        r = to_windows(regions(H, W, w, shift)[..., None], w)[..., 0]
        s = jnp.where((r[:, :, None] == r[:, None, :])[:, None], s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("ghnm,ghmd,hdc->gnc", a, v, p["out"])
    y = from_windows(y, H, W, w)
    return jnp.roll(y, (shift, shift), (0, 1)) if shift else y
