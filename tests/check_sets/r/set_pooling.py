import torch
from torch import nn


class PMA(nn.Module):
    """Pooling by multihead attention (Set Transformer): k seed vectors query a set.  X (B, n, dim) -> (B, k, dim)

        H = LN(S + concat_h softmax(q_h k_h^T / sqrt(d)) v_h),   out = LN(H + rFF(H))

    with q = S W_q, k = X W_k, v = X W_v.
    """

    def __init__(self, dim, num_heads=2, num_seeds=1):
        super().__init__()
        self.num_heads = num_heads
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.fc_q = nn.Linear(dim, dim)
        self.fc_kv = nn.Linear(dim, 2 * dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, X):
        S = self.S.expand(X.size(0), -1, -1)
        q = self.fc_q(S).unflatten(-1, (self.num_heads, -1))
        k, v = self.fc_kv(X).unflatten(-1, (2, self.num_heads, -1)).unbind(2)
        A = torch.einsum("bqhd,bnhd->bhqn", q, k) / q.size(-1) ** 0.5
        O = torch.einsum("bhqn,bnhd->bqhd", A.softmax(-1), k).flatten(2)
        H = self.ln0(S + O)
        return self.ln1(H + torch.relu(self.fc_o(H)))
