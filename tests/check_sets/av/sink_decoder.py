"""Decoder attention with learned sink logits and alternating sliding windows."""
from dataclasses import dataclass

import torch


@dataclass
class ModelConfig:
    hidden_size: int = 48
    head_dim: int = 8
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    sliding_window: int = 4


def sdpa(Q, K, V, S, sm_scale, sliding_window=0):
    """Q: [n, kv, group, d]; K, V: [n, kv, d]; S: sink logit for each query head.

    sliding_window = number of positions visible, the current one counted; 0 = all.
    The sink takes part in the normalisation only and carries no value.
    """
    n, n_kv, group, d = Q.shape
    K = K[:, :, None, :].expand(-1, -1, group, -1)
    V = V[:, :, None, :].expand(-1, -1, group, -1)
    S = S.reshape(n_kv, group, 1, 1).expand(-1, -1, n, -1)
    mask = torch.triu(Q.new_full((n, n), -float("inf")), diagonal=1)
    if sliding_window > 0:
        mask = mask + torch.tril(mask.new_full((n, n), -float("inf")), diagonal=-sliding_window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K) * sm_scale
    QK = QK + mask[None, None]
    QK = torch.cat([QK, S], dim=-1)
    W = torch.softmax(QK, dim=-1)[..., :-1]
    return torch.einsum("hmqk,khmd->qhmd", W, V).reshape(n, -1)


class AttentionBlock(torch.nn.Module):
    def __init__(self, config: ModelConfig, layer_idx: int = 0):
        super().__init__()
        self.head_dim = config.head_dim
        self.nh, self.nkv = config.num_attention_heads, config.num_key_value_heads
        self.sliding_window = config.sliding_window if layer_idx % 2 == 0 else 0
        self.sinks = torch.nn.Parameter(torch.randn(self.nh))
        self.norm = torch.nn.LayerNorm(config.hidden_size)
        self.qkv = torch.nn.Linear(config.hidden_size, (self.nh + 2 * self.nkv) * self.head_dim)
        self.out = torch.nn.Linear(self.nh * self.head_dim, config.hidden_size)
        self.sm_scale = self.head_dim ** -0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [tokens, hidden], a single sequence."""
        qkv = self.qkv(self.norm(x))
        a = self.nh * self.head_dim
        b = a + self.nkv * self.head_dim
        q = qkv[:, :a].reshape(-1, self.nkv, self.nh // self.nkv, self.head_dim)
        k = qkv[:, a:b].reshape(-1, self.nkv, self.head_dim)
        v = qkv[:, b:].reshape(-1, self.nkv, self.head_dim)
        return x + self.out(sdpa(q, k, v, self.sinks, self.sm_scale, self.sliding_window))


class TinyDecoder(torch.nn.Module):
    def __init__(self, cfg: ModelConfig, vocab: int, layers: int = 2):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab, cfg.hidden_size)
        self.block = torch.nn.ModuleList(AttentionBlock(cfg, i) for i in range(layers))
        self.unembedding = torch.nn.Linear(cfg.hidden_size, vocab, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for b in self.block:
            x = b(x)
        return self.unembedding(x)
