import numpy as np


def layernorm(x, w, b, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * w + b


def quick_gelu(x):
    return x / (1.0 + np.exp(-1.702 * x))


def attention_block(x, in_w, in_b, out_w, out_b, n_head, mask):
    """x: (N, L, D). in_w: (3D, D) holds q, k and v one after the other, as in nn.MultiheadAttention."""
    N, L, D = x.shape
    hd = D // n_head
    qkv = x @ in_w.T + in_b
    q, k, v = qkv[..., :D], qkv[..., D:2 * D], qkv[..., 2 * D:]
    q = q.reshape(N, L, n_head, hd).transpose(0, 2, 1, 3)
    k = k.reshape(N, L, n_head, hd).transpose(0, 2, 3, 1)
    v = v.reshape(N, L, n_head, hd).transpose(0, 2, 1, 3)
    w = q @ k / np.sqrt(hd) + mask
    w = np.exp(w - w.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    y = (w @ v).transpose(0, 2, 1, 3).reshape(N, L, D)
    return y @ out_w.T + out_b


def random_state_dict(vocab=60, width=32, layers=2, ctx=12, embed=24, seed=0):
    g = np.random.default_rng(seed)
    n = lambda *s: g.normal(size=s) * 0.15
    sd = {"token_embedding.weight": n(vocab, width), "positional_embedding": n(ctx, width),
          "ln_final.weight": np.ones(width), "ln_final.bias": np.zeros(width), "text_projection": n(width, embed)}
    for i in range(layers):
        p = f"transformer.resblocks.{i}."
        sd.update({p + "ln_1.weight": np.ones(width), p + "ln_1.bias": np.zeros(width),
                   p + "attn.in_proj_weight": n(3 * width, width), p + "attn.in_proj_bias": n(3 * width),
                   p + "attn.out_proj.weight": n(width, width), p + "attn.out_proj.bias": n(width),
                   p + "ln_2.weight": np.ones(width), p + "ln_2.bias": np.zeros(width),
                   p + "mlp.c_fc.weight": n(4 * width, width), p + "mlp.c_fc.bias": n(4 * width),
                   p + "mlp.c_proj.weight": n(width, 4 * width), p + "mlp.c_proj.bias": n(width)})
    return sd


class CLIPText:
    def __init__(self, state_dict=None, n_head=4):
        self.sd = random_state_dict() if state_dict is None else state_dict
        self.n_head = n_head
        self.n_layer = len({k.split(".")[2] for k in self.sd if k.startswith("transformer.resblocks.")})

    def encode_text(self, tokens):
        """tokens: (N, L) int, the end-of-text token has the largest id"""
        sd = self.sd
        L = tokens.shape[1]
        x = sd["token_embedding.weight"][tokens] + sd["positional_embedding"][:L]
        mask = np.triu(np.full((L, L), -np.inf), k=1)
        for i in range(self.n_layer):
            p = f"transformer.resblocks.{i}."
            h = layernorm(x, sd[p + "ln_1.weight"], sd[p + "ln_1.bias"])
            x = x + attention_block(h, sd[p + "attn.in_proj_weight"], sd[p + "attn.in_proj_bias"],
                                    sd[p + "attn.out_proj.weight"], sd[p + "attn.out_proj.bias"], self.n_head, mask)
            h = layernorm(x, sd[p + "ln_2.weight"], sd[p + "ln_2.bias"])
            h = quick_gelu(h @ sd[p + "mlp.c_fc.weight"].T + sd[p + "mlp.c_fc.bias"])
            x = x + h @ sd[p + "mlp.c_proj.weight"].T + sd[p + "mlp.c_proj.bias"]
        x = layernorm(x, sd["ln_final.weight"], sd["ln_final.bias"])
        eot = x[np.arange(x.shape[0]), tokens.argmax(axis=-1)]
        return eot @ sd["text_projection"]

    def __call__(self, tokens):
        return self.encode_text(tokens)
