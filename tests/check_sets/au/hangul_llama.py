"""한국어 라마 추론 (작은 모델). Hugging Face 체크포인트의 state dict를 그대로 읽는다."""
import torch
import torch.nn.functional as F


class Seoljeong:
    """설정"""

    def __init__(self, dim=64, n_head=8, n_kv_head=2, layers=2, theta=10000.0, eps=1e-5):
        self.dim, self.n_head, self.n_kv_head = dim, n_head, n_kv_head
        self.layers, self.theta, self.eps = layers, theta, eps
        self.hd = dim // n_head


def rmsnorm(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def hoejeon(x, pos, theta):
    """HF 방식의 RoPE: 앞 절반과 뒤 절반을 짝짓는다. x [B, L, H, hd]"""
    hd = x.shape[-1]
    f = 1.0 / theta ** (torch.arange(0, hd, 2, dtype=torch.float32) / hd)
    a = pos.float()[:, None] * f
    c, s = a.cos()[None, :, None], a.sin()[None, :, None]
    u, w = x[..., : hd // 2], x[..., hd // 2:]
    return torch.cat([u * c - w * s, w * c + u * s], -1)


def jipjung(x, sd, i, cfg, cache=None):
    """주의 집중 (grouped-query, LLaMA-2/3 배치): 이웃한 질의 헤드가 하나의 kv 헤드를 나눠 쓴다.

    x [B, L, dim]. cache 는 (k, v) 또는 None, 새 cache 를 함께 돌려준다.
    """
    B, L, _ = x.shape
    p = f"model.layers.{i}.self_attn."
    past = 0 if cache is None else cache[0].shape[1]
    q = F.linear(x, sd[p + "q_proj.weight"]).view(B, L, cfg.n_head, cfg.hd)
    k = F.linear(x, sd[p + "k_proj.weight"]).view(B, L, cfg.n_kv_head, cfg.hd)
    v = F.linear(x, sd[p + "v_proj.weight"]).view(B, L, cfg.n_kv_head, cfg.hd)
    pos = torch.arange(past, past + L)
    q, k = hoejeon(q, pos, cfg.theta), hoejeon(k, pos, cfg.theta)
    if cache is not None:
        k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
    cache = (k, v)

    n_rep = cfg.n_head // cfg.n_kv_head
    kk = k.repeat(1, 1, n_rep, 1).transpose(1, 2)
    vv = v.repeat(1, 1, n_rep, 1).transpose(1, 2)
    jeomsu = q.transpose(1, 2) @ kk.transpose(-1, -2) / cfg.hd ** 0.5
    mirae = torch.arange(past + L)[None, :] > pos[:, None]
    jeomsu = jeomsu.masked_fill(mirae, float("-inf"))
    bijung = jeomsu.float().softmax(-1).type_as(vv)
    y = (bijung @ vv).transpose(1, 2).reshape(B, L, -1)
    return F.linear(y, sd[p + "o_proj.weight"]), cache


def mlp(x, sd, i):
    p = f"model.layers.{i}.mlp."
    g = F.silu(F.linear(x, sd[p + "gate_proj.weight"])) * F.linear(x, sd[p + "up_proj.weight"])
    return F.linear(g, sd[p + "down_proj.weight"])


@torch.no_grad()
def ap(tokens, sd, cfg, caches=None):
    """앞으로 한 번"""
    caches = caches or [None] * cfg.layers
    x = sd["model.embed_tokens.weight"][tokens]
    for i in range(cfg.layers):
        n = f"model.layers.{i}."
        y, caches[i] = jipjung(rmsnorm(x, sd[n + "input_layernorm.weight"], cfg.eps), sd, i, cfg, caches[i])
        x = x + y
        x = x + mlp(rmsnorm(x, sd[n + "post_attention_layernorm.weight"], cfg.eps), sd, i)
    x = rmsnorm(x, sd["model.norm.weight"], cfg.eps)
    return F.linear(x, sd["lm_head.weight"]), caches


def iyeosseugi(tokens, sd, cfg, n):
    """탐욕적 이어쓰기"""
    lg, c = ap(tokens, sd, cfg)
    for _ in range(n):
        t = lg[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, t], 1)
        lg, c = ap(t, sd, cfg, c)
    return tokens
