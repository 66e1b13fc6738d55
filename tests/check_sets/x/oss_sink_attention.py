import torch


def sdpa(Q, K, V, S, sm_scale, sliding_window=0):
    # sliding_window == 0 means no sliding window
    n_tokens, n_heads, q_mult, d_head = Q.shape
    assert K.shape == (n_tokens, n_heads, d_head)
    assert V.shape == (n_tokens, n_heads, d_head)
    K = K[:, :, None, :].expand(-1, -1, q_mult, -1)
    V = V[:, :, None, :].expand(-1, -1, q_mult, -1)
    S = S.reshape(n_heads, q_mult, 1, 1).expand(-1, -1, n_tokens, -1)
    mask = torch.triu(Q.new_full((n_tokens, n_tokens), -float("inf")), diagonal=1)
    if sliding_window > 0:
        # a token sees itself and the sliding_window - 1 tokens before it
        mask += torch.tril(mask.new_full((n_tokens, n_tokens), -float("inf")), diagonal=-sliding_window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K)
    QK *= sm_scale
    QK += mask[None, None, :, :]
    QK = torch.cat([QK, S], dim=-1)
    W = torch.softmax(QK, dim=-1)
    W = W[..., :-1]
    attn = torch.einsum("hmqk,khmd->qhmd", W, V)
    return attn.reshape(n_tokens, -1)


class AttentionBlock(torch.nn.Module):
    """x: (n_tokens, hidden_size), a single sequence"""

    def __init__(self, hidden_size=48, head_dim=8, num_attention_heads=6, num_key_value_heads=2, sliding_window=4, layer_idx=0):
        super().__init__()
        self.head_dim = head_dim
        self.nq, self.nkv = num_attention_heads, num_key_value_heads
        # every other layer is local
        self.sliding_window = sliding_window if layer_idx % 2 == 0 else 0
        self.sinks = torch.nn.Parameter(torch.randn(num_attention_heads))
        self.norm = torch.nn.LayerNorm(hidden_size, bias=False)
        self.qkv = torch.nn.Linear(hidden_size, head_dim * (num_attention_heads + 2 * num_key_value_heads))
        self.out = torch.nn.Linear(head_dim * num_attention_heads, hidden_size)
        self.sm_scale = head_dim ** -0.5

    def forward(self, x):
        t = self.norm(x)
        q, k, v = self.qkv(t).split([self.nq * self.head_dim, self.nkv * self.head_dim, self.nkv * self.head_dim], dim=-1)
        q = q.view(-1, self.nkv, self.nq // self.nkv, self.head_dim)
        k = k.view(-1, self.nkv, self.head_dim)
        v = v.view(-1, self.nkv, self.head_dim)
        t = sdpa(q, k, v, self.sinks, self.sm_scale, self.sliding_window)
        return x + self.out(t)
