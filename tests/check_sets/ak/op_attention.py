"""Reference evaluation of the Attention operator of our interchange format (numpy).

Inputs  Q, K, V          4-D [B, H, L, d], or 3-D [B, L, H*d] with q_num_heads / kv_num_heads
        attn_mask        bool (True = take part) or float (added), broadcastable [B, H, Lq, Lk]
        past_key, past_value   4-D, put in front of K and V
Attributes  is_causal    query i stands at key position past_length + i
            scale        default 1 / sqrt(d)
            softcap      > 0: scores become softcap * tanh(scores / softcap), before any mask
            qk_matmul_output_mode   0 raw scaled scores, 1 after softcap, 2 after mask, 3 softmax
Several query heads share a key head when q_num_heads is a multiple of kv_num_heads; they lie
next to each other.
"""
import numpy as np


class OpRun:
    op_type = None
    registry = {}

    def __init_subclass__(cls):
        if cls.op_type:
            OpRun.registry[cls.op_type] = cls

    @classmethod
    def eval(cls, *inputs, **attrs):
        return cls().run(*inputs, **attrs)


class Softmax(OpRun):
    op_type = "Softmax"

    def run(self, x, axis=-1):
        top = np.max(x, axis=axis, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        e = np.exp(x - top)
        total = e.sum(axis=axis, keepdims=True)
        return (e / np.where(total == 0, 1, total)).astype(x.dtype)


class Attention(OpRun):
    op_type = "Attention"

    @staticmethod
    def _to_4d(x, heads):
        if x.ndim == 4:
            return x
        if heads is None:
            raise ValueError("3-D inputs need the number of heads")
        b, l, e = x.shape
        return x.reshape(b, l, heads, e // heads).transpose(0, 2, 1, 3)

    def run(self, Q, K, V, attn_mask=None, past_key=None, past_value=None, *, is_causal=0,
            q_num_heads=None, kv_num_heads=None, scale=None, softcap=0.0,
            qk_matmul_output_mode=0):
        flat = Q.ndim == 3
        Q = self._to_4d(Q, q_num_heads)
        K = self._to_4d(K, kv_num_heads)
        V = self._to_4d(V, kv_num_heads)
        past = 0
        if past_key is not None:
            past = past_key.shape[2]
            K = np.concatenate([past_key, K], axis=2)
            V = np.concatenate([past_value, V], axis=2)
        present_key, present_value = K, V

        if K.shape[2] != V.shape[2]:
            raise ValueError("K and V must have the same length")
        if Q.shape[1] % K.shape[1]:
            raise ValueError("q_num_heads must be a multiple of kv_num_heads")
        group = Q.shape[1] // K.shape[1]
        K, V = np.repeat(K, group, axis=1), np.repeat(V, group, axis=1)

        work = np.float32 if Q.dtype == np.float16 else Q.dtype
        scale = 1.0 / np.sqrt(Q.shape[-1]) if scale is None else scale
        # the square root goes to both sides, so that neither product overflows
        root = np.sqrt(scale)
        s = (Q.astype(work) * root) @ (K.astype(work) * root).transpose(0, 1, 3, 2)
        stages = [s]
        if softcap > 0:
            s = softcap * np.tanh(s / softcap)
        stages.append(s)

        allowed = np.ones(s.shape[-2:], bool)
        if is_causal:
            allowed = np.tri(s.shape[-2], s.shape[-1], past, dtype=bool)
        if attn_mask is not None:
            if attn_mask.dtype == bool:
                allowed = allowed & attn_mask
            else:
                s = s + attn_mask.astype(work)
        s = np.where(allowed, s, -np.inf)
        stages.append(s)
        p = Softmax.eval(s)
        stages.append(p)

        y = (p @ V.astype(work)).astype(V.dtype)
        if flat:
            b, h, l, d = y.shape
            y = y.transpose(0, 2, 1, 3).reshape(b, l, h * d)
        extra = stages[qk_matmul_output_mode].astype(Q.dtype)
        return y, present_key, present_value, extra


def evaluate(nodes, feeds):
    """nodes: list of (op_type, input names, output names, attributes) in order."""
    env = dict(feeds)
    for op_type, ins, outs, attrs in nodes:
        res = OpRun.registry[op_type].eval(*[env[i] if i else None for i in ins], **attrs)
        res = res if isinstance(res, tuple) else (res,)
        env.update({name: val for name, val in zip(outs, res) if name})
    return env
