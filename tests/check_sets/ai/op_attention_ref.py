"""NumPy reference of the `Attention` operator of our graph runtime (conformance tests).

Inputs  Q (B, Hq, Lq, D)   K (B, Hkv, Lk, D)   V (B, Hkv, Lk, Dv)
Attributes
  scale     float, default 1/sqrt(D)
  is_causal query i may see keys 0 .. i + Lk - Lq (the past counts)
  softcap   0 = off; otherwise scores become softcap * tanh(scores / softcap)
  mask      bool (True = may be seen) or float (added), broadcastable to (B, Hq, Lq, Lk)
A query without any visible key yields zeros.
"""
import numpy as np


class OpError(ValueError):
    pass


_REGISTRY = {}


def register(name):
    def deco(fn):
        _REGISTRY[name] = fn
        return fn
    return deco


def run_op(name, *inputs, **attrs):
    if name not in _REGISTRY:
        raise OpError(f"unknown op {name}")
    return _REGISTRY[name](*inputs, **attrs)


@register("Softcap")
def op_softcap(x, cap):
    return x if cap == 0 else np.tanh(x / cap) * cap


@register("Attention")
def op_attention(q, k, v, mask=None, past_k=None, past_v=None, *, scale=None, is_causal=False, softcap=0.0):
    if (past_k is None) != (past_v is None):
        raise OpError("past_k and past_v come together or not at all")
    if past_k is not None:
        k = np.concatenate([past_k, k], axis=2)
        v = np.concatenate([past_v, v], axis=2)
    if k.shape[:3] != v.shape[:3]:
        raise OpError(f"K {k.shape} and V {v.shape} do not belong together")
    B, Hq, Lq, D = q.shape
    Hkv, Lk = k.shape[1:3]
    if Hq % Hkv:
        raise OpError("Hq must be a multiple of Hkv")

    acc = np.promote_types(q.dtype, np.float32)
    kk = np.repeat(k, Hq // Hkv, axis=1).astype(acc)
    vv = np.repeat(v, Hq // Hkv, axis=1).astype(acc)
    s = np.matmul(q.astype(acc), np.swapaxes(kk, -1, -2))
    s = s * (D ** -0.5 if scale is None else scale)
    s = op_softcap(s, softcap)

    hidden = np.zeros((1, 1, Lq, Lk), dtype=bool)
    if is_causal:
        hidden = hidden | ~np.tri(Lq, Lk, Lk - Lq, dtype=bool)
    if mask is not None:
        if mask.dtype == np.bool_:
            hidden = hidden | ~mask
        else:
            s = s + mask
            hidden = hidden | np.isneginf(mask)
    hidden = np.broadcast_to(hidden, s.shape)

    s = np.where(hidden, -np.inf, s)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isneginf(top), 0, top))
    z = e.sum(axis=-1, keepdims=True)
    p = e / np.where(z == 0, 1, z)
    y = np.matmul(p, vv)
    return y.astype(q.dtype), k, v


@register("RMSNormalization")
def op_rms_norm(x, w, *, epsilon=1e-5):
    acc = x.astype(np.promote_types(x.dtype, np.float32))
    y = acc / np.sqrt(np.mean(acc * acc, axis=-1, keepdims=True) + epsilon)
    return (y * w).astype(x.dtype)


@register("Gather")
def op_gather(x, idx, *, axis=0):
    return np.take(x, idx, axis=axis)


def check_case(name, inputs, attrs, expected, rtol=1e-4, atol=1e-5):
    got = run_op(name, *inputs, **attrs)
    got = got if isinstance(got, tuple) else (got,)
    return all(np.allclose(g, e, rtol=rtol, atol=atol) for g, e in zip(got, expected))
