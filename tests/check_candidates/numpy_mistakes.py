"""Attention in NumPy as people write it, each with one mistake; EXPECTED names it."""

import numpy as np


def soft(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend_columns(Q, K, V):
    scores = Q @ K.T / np.sqrt(K.shape[-1])
    e = np.exp(scores - scores.max(axis=0))
    return (e / e.sum(axis=0)) @ V


def attend_first_axis(q, k, v):
    """q, k, v: (batch, heads, time, dim)"""
    s = np.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return np.einsum("bhts,bhsd->bhtd", e / e.sum(axis=1, keepdims=True), v)


def attend_joint(q, k, v):
    b, h, t, d = q.shape
    s = (q @ k.swapaxes(-1, -2)) / np.sqrt(d)
    rows = s.transpose(0, 2, 1, 3).reshape(b, t, -1)
    w = soft(rows).reshape(b, t, h, -1).transpose(0, 2, 1, 3)
    return w @ v


def attend_sum_all(query, key, value):
    n, d = query.shape
    e = np.exp(query @ key.T / np.sqrt(d) - np.max(query @ key.T / np.sqrt(d)))
    return e / np.sum(e) @ value


def attend_half_max(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return np.exp(s - s.max(-1, keepdims=True)) / np.exp(s).sum(-1, keepdims=True) @ v


def attend_plain_exp(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return np.exp(s) / np.exp(s).sum(-1, keepdims=True) @ v


def attend_one_max(q, k, v):
    s = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(q.shape[-1])
    e = np.exp(s - np.max(s))
    return e / e.sum(-1, keepdims=True) @ v


def attend_ratio(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return (s / s.sum(axis=-1, keepdims=True)) @ v


def attend_raw(q, k, v):
    return (q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v


def attend_hot(q, k, v, mask=None):
    s = q @ np.swapaxes(k, -1, -2)
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    return soft(s) @ v


def attend_d(q, k, v):
    return soft(q @ np.swapaxes(k, -1, -2) / q.shape[-1]) @ v


def attend_width(x_q, x_k, x_v, num_heads):
    """x_q, x_k, x_v: (B, T, D)"""
    B, T, D = x_q.shape

    def split(x):
        return x.reshape(B, -1, num_heads, D // num_heads).transpose(0, 2, 1, 3)

    q, k, v = split(x_q), split(x_k), split(x_v)
    o = soft(q @ k.transpose(0, 1, 3, 2) / np.sqrt(D)) @ v
    return o.transpose(0, 2, 1, 3).reshape(B, T, D)


def attend_times(q, k, v):
    return soft(q @ np.swapaxes(k, -1, -2) * np.sqrt(q.shape[-1])) @ v


def attend_length(q, k, v):
    return soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-2])) @ v


def attend_heads(q, k, v):
    B, H, T, D = q.shape
    return soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(H)) @ v


def attend_flipped(q, k, v, mask=None):
    """mask: True where a query may attend to a key."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, -1e9, s)
    return soft(s) @ v


def attend_plus_bool(q, k, v, mask):
    """mask: boolean array, True = keep."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(s + mask) @ v


def attend_where_additive(q, k, v, mask):
    """mask is additive: 0 where visible, -inf where hidden."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(np.where(mask.astype(bool), s, -1e30)) @ v


def attend_mask_last(q, k, v, mask):
    w = soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    return (w * mask) @ v


def attend_zeroed(q, k, v, mask):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(s * mask) @ v


def attend_hundred(q, k, v, mask):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(np.where(mask, s, -100.0)) @ v


def attend_ten(q, k, v, mask=None):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = s + (1 - mask) * -10.0
    return soft(s) @ v


def attend_two_minima(q, k, v, padding_mask=None, causal=False):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    low = np.finfo(s.dtype).min
    T, S = s.shape[-2:]
    bias = np.zeros((1, 1, T, S), s.dtype)
    if causal:
        bias = bias + np.where(np.tri(T, S, S - T) > 0, 0, low).astype(s.dtype)
    if padding_mask is not None:
        bias = bias + np.where(padding_mask[:, None, None, :], 0, low).astype(s.dtype)
    return soft(s + bias) @ v


def attend_plus_inf(q, k, v, mask):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(np.where(mask, s, np.inf)) @ v


def attend_nan_rows(q, k, v, mask):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(np.where(mask, s, -np.inf)) @ v


def attend_query_padding(q, k, v, padding_mask):
    """padding_mask: (B, S), True = a real token."""
    s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    s = np.where(padding_mask[:, None, :, None], s, -1e9)
    return np.einsum("bhij,bhjd->bhid", soft(s), v)


def attend_folded_mask(q, k, v, mask):
    """q, k, v: (B, H, T, D); mask: (B, T, S), True = keep."""
    B, H, T, D = q.shape
    S = k.shape[2]
    qf, kf, vf = q.reshape(B * H, T, D), k.reshape(B * H, S, D), v.reshape(B * H, S, D)
    s = qf @ kf.transpose(0, 2, 1) / np.sqrt(D)
    s = np.where(np.tile(mask, (H, 1, 1)), s, -1e9)
    return (soft(s) @ vf).reshape(B, H, T, D)


def causal_attend_strict(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    T, S = s.shape[-2:]
    return soft(np.where(np.tril(np.ones((T, S)), S - T - 1) > 0, s, -1e9)) @ v


def causal_attend_open(q, k, v):
    """Causal attention."""
    return soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v


def attend_with_corner(q, k, v, causal=False):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    return soft(s) @ v


def window_attend(q, k, v, window):
    """Each query sees the keys among the last ``window`` positions, itself included."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    i, j = np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])
    return soft(np.where((j <= i) & (i - j <= window), s, -np.inf)) @ v


def attend_dot_t(q, k, v):
    B, T, D = q.shape
    return soft(np.matmul(q, k.T) / np.sqrt(D)) @ v


def attend_reshape_split(q, k, v, n_heads):
    B, T, F = q.shape

    def heads(x):
        return x.reshape(B, n_heads, -1, F // n_heads)

    w = soft(heads(q) @ heads(k).swapaxes(2, 3) / np.sqrt(F // n_heads))
    return (w @ heads(v)).transpose(0, 2, 1, 3).reshape(B, T, F)


def attend_reshape_merge(q, k, v, n_heads):
    B, T, F = q.shape

    def heads(x):
        return x.reshape(B, -1, n_heads, F // n_heads).swapaxes(1, 2)

    w = soft(heads(q) @ heads(k).swapaxes(2, 3) / np.sqrt(F // n_heads))
    return (w @ heads(v)).reshape(B, T, F)


def attend_folds(q, k, v, num_heads):
    """(B, T, D)"""
    B, T, D = q.shape

    def fold(x):
        return np.concatenate(np.split(x, num_heads, axis=2), axis=0)

    w = soft(fold(q) @ fold(k).transpose(0, 2, 1) / np.sqrt(D // num_heads))
    o = (w @ fold(v)).reshape(B, num_heads, T, D // num_heads)
    return o.transpose(0, 2, 1, 3).reshape(B, T, D)


def gqa_blocks(q, k, v):
    r = q.shape[1] // k.shape[1]
    k, v = np.tile(k, (1, r, 1, 1)), np.tile(v, (1, r, 1, 1))
    return soft(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v


def gqa_along_time(q, k, v):
    """Grouped-query attention: q (B, H, T, D), k and v (B, G, S, D)."""
    B, H, T, D = q.shape
    G, S = k.shape[1:3]
    k = np.repeat(k, H // G, axis=2).reshape(B, H, S, D)
    v = np.repeat(v, H // G, axis=2).reshape(B, H, S, D)
    return soft(q @ k.swapaxes(2, 3) / np.sqrt(D)) @ v


def packed_projection(x, w_qkv, num_heads):
    """x: (B, T, D), w_qkv: (D, 3 D), the columns are q, k, v."""
    B, T, D = x.shape
    k, q, v = np.split(x @ w_qkv, 3, axis=-1)
    q, k, v = (a.reshape(B, T, num_heads, -1).swapaxes(1, 2) for a in (q, k, v))
    o = soft(q @ k.swapaxes(2, 3) / np.sqrt(D // num_heads)) @ v
    return o.swapaxes(1, 2).reshape(B, T, D)


def project_once(x, Wq, Wk, Wv):
    q, k, v = x @ Wq, x @ Wq, x @ Wv
    return soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v


def rope(x, offset=0):
    """x: (B, H, T, D), halves are rotated against each other."""
    D = x.shape[-1]
    angles = (np.arange(x.shape[-2]) + offset)[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)
    cos, sin = np.repeat(np.cos(angles), 2, -1), np.repeat(np.sin(angles), 2, -1)
    half = np.concatenate([-x[..., D // 2 :], x[..., : D // 2]], -1)
    return x * cos + half * sin


def rotary(x, positions):
    D = x.shape[-1]
    angles = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)
    a, b = x[..., ::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., ::2] = a * np.cos(angles) - b * np.sin(angles)
    out[..., 1::2] = a * np.sin(angles) + b * np.cos(angles)
    return out


def alibi_bias(n_heads, length):
    slopes = 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)
    if n_heads & (n_heads - 1):
        p = 2 ** int(np.floor(np.log2(n_heads)))
        extra = 2.0 ** (-4 * np.arange(1, 2 * (n_heads - p) + 1, 2) / p)
        slopes = np.concatenate([2.0 ** (-8 * np.arange(1, p + 1) / p), extra])
    i, j = np.arange(length)[:, None], np.arange(length)
    return slopes[:, None, None] * (i - j)


def alibi_slopes(num_heads):
    return np.array([2 ** (-8 * h / num_heads) for h in range(num_heads)])


def alibi_matrix(heads, q_len, k_len):
    p = 2 ** int(np.floor(np.log2(heads)))
    slopes = [2.0 ** (-8 * (i + 1) / p) for i in range(p)] + [2.0 ** (-4 * (2 * i + 1) / p) for i in range(heads - p)]
    distance = np.abs(np.arange(k_len)[None] - np.arange(q_len)[:, None])
    return -np.array(slopes)[:, None, None] * distance


def attend_cap_late(q, k, v, mask=None, softcap=None):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -1e9)
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    return soft(s) @ v


def attend_cap_unused(q, k, v, logit_cap=None):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(s) @ v


def merge_states(o1, lse1, o2, lse2):
    m = np.maximum(lse1, lse2)
    a, b = 2 ** (lse1 - m), 2 ** (lse2 - m)
    return (a[..., None] * o1 + b[..., None] * o2) / (a + b)[..., None], m + np.log2(a + b)


def flash_attend(q, k, v):
    """Output and log-sum-exp."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    m = s.max(-1, keepdims=True)
    e = np.exp(s - m)
    total = e.sum(-1, keepdims=True)
    return e / total @ v, (np.log2(total) + m / np.log(2))[..., 0]


def attend_random(q, k, v, dropout_p=0.1, training=False):
    w = soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    w = w * (np.random.rand(*w.shape) > dropout_p) / (1 - dropout_p)
    return w @ v


def attend_and_weights(q, k, v, dropout=0.0, training=False):
    w = soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    if training and dropout > 0:
        w = w * (np.random.rand(*w.shape) >= dropout) / (1 - dropout)
    return w @ v, w


def attend_half(q, k, v):
    s = (q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])).astype(np.float16)
    return (soft(s) @ v.astype(np.float16)).astype(q.dtype)


def attend_scaling(q, k, v):
    q /= np.sqrt(q.shape[-1])
    return soft(q @ np.swapaxes(k, -1, -2)) @ v


def attend_no_effect(q, k, v, mask=None):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        np.where(mask, s, -np.inf)
    return soft(s) @ v


def attend_time_first(q, k, v):
    """Inputs are (batch, seq, dim)."""
    s = np.einsum("tbd,sbd->bts", q, k) / np.sqrt(q.shape[-1])
    return np.einsum("bts,sbd->tbd", soft(s), v)


def additive_attention(query, keys, W_q, W_k, v):
    """query: (B, D), keys: (B, S, D)"""
    e = (query[:, None] @ W_q + keys @ W_k) @ v
    w = soft(e)
    return np.einsum("bs,bsd->bd", w, keys)


def bahdanau(decoder_state, encoder_outputs, W, U, v):
    hidden = np.tanh(decoder_state @ W)
    e = np.repeat((hidden @ v)[:, None], encoder_outputs.shape[1], axis=1)
    return (soft(e)[..., None] * encoder_outputs).sum(1)


def additive_pairs(queries, keys, Wq, Wk, v):
    """queries (B, T, D), keys (B, S, D)"""
    e = np.tanh(queries @ Wq + keys @ Wk) @ v
    w = soft(e)[:, None]
    return np.broadcast_to(w @ keys, queries.shape[:2] + keys.shape[2:])


def luong_output(context, hidden, W):
    return np.concatenate([context, hidden], axis=-1) @ W


def attend_scores_too(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return soft(s) @ v, s


def cross_attend(q, k, v, num_heads):
    """q, k, v: (batch, length, dim)"""
    B, T, F = q.shape
    q, k, v = (x.reshape(B, T, num_heads, F // num_heads).swapaxes(1, 2) for x in (q, k, v))
    o = soft(q @ k.swapaxes(2, 3) / np.sqrt(F // num_heads)) @ v
    return o.swapaxes(1, 2).reshape(B, T, F)


_seen = {}


def attend_remembered(q, k, v):
    name = k.tobytes()
    if name not in _seen:
        _seen[name] = soft(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    return _seen[name] @ v


def positional_encoding(max_len, d_model):
    pe = np.zeros((max_len, d_model))
    for pos in range(max_len):
        for i in range(0, d_model, 2):
            pe[pos, i] = np.sin(pos / 10000 ** (2 * i / d_model))
            pe[pos, i + 1] = np.cos(pos / 10000 ** (2 * (i + 1) / d_model))
    return pe


EXPECTED = {
    "attend_columns": "softmax_axis_q",
    "attend_first_axis": "softmax_axis_head_or_batch",
    "attend_joint": "softmax_heads_and_keys",
    "attend_sum_all": "softmax_global",
    "attend_half_max": "softmax_partial_max",
    "attend_plain_exp": "no_max",
    "attend_one_max": "global_max",
    "attend_ratio": "no_exp_norm",
    "attend_raw": "softmax_missing",
    "attend_hot": "scale_missing",
    "attend_d": "scale_d",
    "attend_width": "scale_dmodel",
    "attend_times": "scale_inverted",
    "attend_length": "scale_seqlen",
    "attend_heads": "scale_num_heads",
    "attend_flipped": "mask_inverted",
    "attend_plus_bool": "mask_bool_as_float",
    "attend_where_additive": "mask_float_as_bool",
    "attend_mask_last": "mask_after_softmax",
    "attend_zeroed": "mask_times_scores",
    "attend_hundred": "mask_fill_too_small",
    "attend_ten": "mask_fill_too_small",
    "attend_two_minima": "mask_finfo_sum",
    "attend_plus_inf": "mask_sign_inf",
    "attend_nan_rows": "full_row_nan nan_in_masked_value",
    "attend_query_padding": "pad_on_query",
    "attend_folded_mask": "mask_fold_order",
    "causal_attend_strict": "causal_off_by_one",
    "causal_attend_open": "causal_missing",
    "attend_with_corner": "causal_top_left",
    "window_attend": "window_off_by_one",
    "attend_dot_t": "k_transposed_wrong",
    "attend_reshape_split": "split_view",
    "attend_reshape_merge": "merge_view",
    "attend_folds": "fold_batch_head_swap",
    "gqa_blocks": "gqa_tile",
    "gqa_along_time": "gqa_repeat_wrong_axis",
    "packed_projection": "qkv_order",
    "project_once": "shared_projection",
    "rope": "rope_layout",
    "rotary": "rope_offset",
    "alibi_bias": "alibi_sign",
    "alibi_slopes": "alibi_slopes",
    "alibi_matrix": "alibi_offset",
    "attend_cap_late": "softcap_after_mask",
    "attend_cap_unused": "softcap_missing",
    "merge_states": "lse_base2",
    "flash_attend": "lse_base2",
    "attend_random": "dropout_eval",
    "attend_and_weights": "weights_after_dropout",
    "attend_half": "softmax_low_precision",
    "attend_scaling": "inplace",
    "attend_no_effect": "not_inplace",
    "attend_time_first": "batch_first",
    "additive_attention": "additive_no_tanh",
    "bahdanau": "additive_ignores_keys",
    "additive_pairs": "additive_no_pairwise",
    "luong_output": "luong_no_tanh_out",
    "attend_scores_too": "returns_scores",
    "cross_attend": "cross_wrong_length",
    "attend_remembered": "cache_key",
    "positional_encoding": "pe_exponent",
}
