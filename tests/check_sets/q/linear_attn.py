import torch
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1


def causal_linear_attention(queries, keys, values, eps=1e-6):
    """Transformers are RNNs (Katharopoulos et al. 2020): phi(q_i) . phi(k_j) in the place of exp(q_i . k_j), summed over j <= i.

    queries, keys (N, L, H, E), values (N, L, H, M) -> (N, L, H, M)
    """
    Q, K = phi(queries), phi(keys)
    KV = torch.einsum("nlhe,nlhm->nlhem", K, values).cumsum(1)
    Z = 1.0 / (torch.einsum("nlhe,nlhe->nlh", Q, K.cumsum(1)) + eps)
    return torch.einsum("nlhe,nlhem,nlh->nlhm", Q, KV, Z)
