"""Decision-transformer policy (return-to-go, state, action triplets)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, dim, n_head, p_drop):
        super().__init__()
        self.n_head = n_head
        self.p_drop = p_drop
        self.ln_a = nn.LayerNorm(dim)
        self.ln_m = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(p_drop))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (t.reshape(B, T, self.n_head, -1).transpose(1, 2) for t in self.qkv(self.ln_a(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p_drop, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(self.ln_m(x))


class DTPolicy(nn.Module):
    def __init__(self, s_dim=5, a_dim=2, dim=32, n_head=2, n_layer=2, max_t=64, p_drop=0.1):
        super().__init__()
        self.e_r = nn.Linear(1, dim)
        self.e_s = nn.Linear(s_dim, dim)
        self.e_a = nn.Linear(a_dim, dim)
        self.e_t = nn.Embedding(max_t, dim)
        self.blocks = nn.Sequential(*(CausalBlock(dim, n_head, p_drop) for _ in range(n_layer)))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, a_dim)

    def forward(self, rtg, states, actions, t):
        """rtg [B,K,1], states [B,K,s], actions [B,K,a], t [B,K] -> next actions [B,K,a]"""
        B, K = t.shape
        e = self.e_t(t)
        x = torch.stack((self.e_r(rtg) + e, self.e_s(states) + e, self.e_a(actions) + e), 2)
        x = self.blocks(x.view(B, 3 * K, -1))
        return torch.tanh(self.head(self.ln(x)[:, 1::3]))
