"""Gemma-2 flavoured decoder: GQA, logit soft capping, alternating local/global layers.

config is a dict, see `gem_config`.  Parameters are a list of dicts.
"""
import jax
import jax.numpy as jnp


def gem_config(**kw):
    cfg = dict(vocab=64, embed_dim=32, num_heads=4, num_kv_heads=2, head_dim=8, hidden_dim=64, num_layers=2,
               query_pre_attn_scalar=8, attn_logits_soft_cap=4.0, final_logit_soft_cap=30.0,
               sliding_window_size=6)
    cfg.update(kw)
    return cfg


def init(key, cfg):
    E, N, K, H, F = (cfg[k] for k in ('embed_dim', 'num_heads', 'num_kv_heads', 'head_dim', 'hidden_dim'))
    ks = jax.random.split(key, 6 * cfg['num_layers'] + 1)
    n = lambda k, shape, fan: jax.random.normal(k, shape) * fan ** -0.5
    layers = []
    for i in range(cfg['num_layers']):
        a, b, c, d, e, f = ks[6 * i: 6 * i + 6]
        layers.append({'q': n(a, (N, E, H), E), 'kv': n(b, (2, K, E, H), E), 'out': n(c, (N, H, E), N * H),
                       'gate': n(d, (E, F), E), 'up': n(e, (E, F), E), 'down': n(f, (F, E), F),
                       'pre': jnp.zeros(E), 'post': jnp.zeros(E), 'pre_ff': jnp.zeros(E), 'post_ff': jnp.zeros(E)})
    return {'embed': n(ks[-1], (cfg['vocab'], E), E), 'layers': layers, 'final': jnp.zeros(E)}


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x ** 2, -1, keepdims=True) + 1e-6) * (1 + g)


def rope(x, positions, max_wavelength=10_000):
    # x (B, T, N, H), positions (B, T)
    half = x.shape[-1] // 2
    ts = max_wavelength ** (2 * jnp.arange(half) / x.shape[-1])
    ang = (positions[..., None] / ts)[:, :, None, :]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def make_mask(positions, input_mask, window=None):
    """(B, T, T) bool; the window counts the query itself"""
    d = positions[:, :, None] - positions[:, None, :]
    m = (d >= 0) & input_mask[:, None, :]
    return m if window is None else m & (d < window)


def attention(p, x, positions, mask, cfg):
    B, T, _ = x.shape
    q = jnp.einsum('btd,ndh->btnh', x, p['q'])
    k, v = jnp.einsum('bsd,ckdh->cbskh', x, p['kv'])
    q, k = rope(q, positions), rope(k, positions)
    K = cfg['num_kv_heads']
    q = q.reshape(B, T, K, q.shape[2] // K, q.shape[3])
    logits = jnp.einsum('btkgh,bskh->btkgs', q, k) / cfg['query_pre_attn_scalar'] ** -0.5
    logits = logits + jnp.where(mask, 0.0, -2.3819763e38)[:, :, None, None, :]
    cap = cfg['attn_logits_soft_cap']
    if cap is not None:
        logits = jnp.tanh(logits / cap) * cap
    probs = jax.nn.softmax(logits, axis=-1)
    enc = jnp.einsum('btkgs,bskh->btkgh', probs, v).reshape(B, T, -1, v.shape[-1])
    return jnp.einsum('btnh,nhd->btd', enc, p['out'])


def forward(params, tokens, cfg, input_mask=None):
    """tokens (B, T), input_mask (B, T) True = token -> logits (B, T, vocab)"""
    if input_mask is None:
        input_mask = jnp.ones(tokens.shape, bool)
    positions = jnp.maximum(jnp.cumsum(input_mask, -1) - 1, 0)
    x = params['embed'][tokens] * cfg['embed_dim'] ** 0.5
    for i, p in enumerate(params['layers']):
        mask = make_mask(positions, input_mask, cfg['sliding_window_size'] if i % 2 == 0 else None)
        x = x + rms_norm(attention(p, rms_norm(x, p['pre']), positions, mask, cfg), p['post'])
        h = rms_norm(x, p['pre_ff'])
        h = (jax.nn.gelu(h @ p['gate']) * (h @ p['up'])) @ p['down']
        x = x + rms_norm(h, p['post_ff'])
    logits = rms_norm(x, params['final']) @ params['embed'].T
    cap = cfg['final_logit_soft_cap']
    return jnp.tanh(logits / cap) * cap
