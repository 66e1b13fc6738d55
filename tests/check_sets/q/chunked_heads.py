import torch
import torch.nn.functional as F


def multihead_attention(queries, keys, values, Wq, Wk, Wv, num_heads=2):
    '''Applies multihead attention.

    Args:
      queries: A 3d tensor with shape of [N, T_q, C].
      keys: A 3d tensor with shape of [N, T_k, C].
      values: A 3d tensor with shape of [N, T_k, C].
      Wq, Wk, Wv: [C, C]
      num_heads: An int. Number of heads.

    Returns
      A 3d tensor with shape of (N, T_q, C)
    '''
    Q, K, V = queries @ Wq, keys @ Wk, values @ Wv

    # Split and concat
    Q_ = torch.cat(torch.chunk(Q, num_heads, dim=2), dim=0)  # (h*N, T_q, C/h)
    K_ = torch.cat(torch.chunk(K, num_heads, dim=2), dim=0)  # (h*N, T_k, C/h)
    V_ = torch.cat(torch.chunk(V, num_heads, dim=2), dim=0)  # (h*N, T_k, C/h)

    outputs = torch.matmul(Q_, K_.transpose(1, 2)) / K_.shape[-1] ** 0.5
    outputs = F.softmax(outputs, dim=-1)
    outputs = torch.matmul(outputs, V_)  # (h*N, T_q, C/h)

    # Restore shape
    N, T_q, C = queries.shape
    outputs = outputs.view(N, num_heads, T_q, -1).transpose(1, 2).reshape(N, T_q, C)
    return outputs
