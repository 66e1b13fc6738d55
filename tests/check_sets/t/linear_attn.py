import torch
import torch.nn.functional as F


def feature_map(x):
    return F.elu(x) + 1


def linear_attention(q, k, v, key_mask=None, causal=False, eps=1e-6):
    """Katharopoulos et al. 2020, "Transformers are RNNs".

    out_i = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) . sum_j phi(k_j)),  phi(x) = elu(x) + 1

    q, k: (N, L, H, D)   v: (N, S, H, M)   key_mask: (N, S), 1 = use the key
    causal: sums go over j <= i only (needs L == S)
    """
    q, k = feature_map(q), feature_map(k)
    if key_mask is not None:
        k = k * key_mask[:, :, None, None].to(k.dtype)
    if causal:
        kv = torch.einsum("nshd,nshm->nshdm", k, v).cumsum(1)
        z = 1 / (torch.einsum("nlhd,nlhd->nlh", q, k.cumsum(1)) + eps)
        return torch.einsum("nlhd,nlhdm,nlh->nlhm", q, kv, z)
    kv = torch.einsum("nshd,nshm->nhdm", k, v)
    z = 1 / (torch.einsum("nlhd,nhd->nlh", q, k.sum(1)) + eps)
    return torch.einsum("nlhd,nhdm,nlh->nlhm", q, kv, z)
