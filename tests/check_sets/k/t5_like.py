import torch
from torch import nn


class T5SelfAttention(nn.Module):
    """Encoder self-attention as in T5: the scores are *not* divided by sqrt(d_kv); the initialisation takes care of that.

    position_bias: (1, n_heads, L, L), added to the scores.
    """

    def __init__(self, d_model=32, d_kv=8, n_heads=4):
        super().__init__()
        self.h, self.d = n_heads, d_kv
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)

    def forward(self, hidden_states, position_bias):
        b, l, _ = hidden_states.shape

        def shape(states):
            return states.view(b, l, self.h, self.d).transpose(1, 2)

        q, k, v = shape(self.q(hidden_states)), shape(self.k(hidden_states)), shape(self.v(hidden_states))
        scores = torch.matmul(q, k.transpose(3, 2)) + position_bias
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o(torch.matmul(weights, v).transpose(1, 2).contiguous().view(b, l, -1))
