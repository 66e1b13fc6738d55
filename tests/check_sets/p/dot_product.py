import torch


def scaled_dot_product_attention(q, k, v):
    """q (batch, heads, seq_len_q, depth), k (batch, heads, seq_len_k, depth), v (batch, heads, seq_len_k, depth_v)"""
    dk = k.shape[-1]
    matmul_qk = torch.matmul(q, k.transpose(1, 2))
    attention_weights = torch.softmax(matmul_qk / dk ** 0.5, dim=-1)
    return torch.matmul(attention_weights, v), attention_weights
