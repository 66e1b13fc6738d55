import torch


def eager_gqa_forward(query, key, value, n_rep):
    """query [B, T, n_kv * n_rep, D]; key, value [B, S, n_kv, D]: n_rep neighbouring query heads share a key/value head."""
    B, S, n_kv, D = key.shape
    key = key.repeat_interleave(n_rep, dim=1).view(B, S, n_kv * n_rep, D)
    value = value.repeat_interleave(n_rep, dim=1).view(B, S, n_kv * n_rep, D)
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    attn_weights = torch.matmul(query, key.transpose(2, 3)) * D ** -0.5
    attn_weights = torch.softmax(attn_weights, dim=-1)
    return torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
