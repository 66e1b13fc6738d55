import torch
import torch.nn.functional as F


def causal_linear_attention(q, k, v, eps=1e-6):
    """Causal linear attention of "Transformers are RNNs" (Katharopoulos et al., 2020).

    The feature map is phi(x) = elu(x) + 1; there is neither a softmax nor a
    1/sqrt(d), as in the paper.

        y_i = phi(q_i)^T sum_{j<=i} phi(k_j) v_j^T / (phi(q_i)^T sum_{j<=i} phi(k_j) + eps)

    q, k: (B, H, L, d); v: (B, H, L, e); returns (B, H, L, e).
    """
    fq = F.elu(q) + 1
    fk = F.elu(k) + 1
    state = torch.einsum("bhld,bhle->bhlde", fk, v).cumsum(dim=2)
    norm = fk.cumsum(dim=2)
    top = torch.einsum("bhld,bhlde->bhle", fq, state)
    bottom = (fq * norm).sum(-1, keepdim=True) + eps
    return top / bottom
