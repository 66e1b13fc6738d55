"""River gauges: what flows past gauge-time t is a running sum of all that came before.

Causal LINEAR attention (Katharopoulos et al. 2020), time first, in one cumulative sum.

tail_flow(q, k, v, eps=1e-6)
    q, k  (T, G, B, d)   T times, G gauges (heads), B rivers
    v     (T, G, B, c)
returns (T, G, B, c)

    out_t = sum_{s<=t} (phi(q_t).phi(k_s)) v_s / (sum_{s<=t} phi(q_t).phi(k_s) + eps)

with phi(x) = elu(x) + 1.  There is no softmax and no 1/sqrt(d) in this method.
"""
import torch
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


def tail_flow(q, k, v, eps=1e-6):
    q, k = phi(q), phi(k)
    silt = torch.einsum("tgbd,tgbc->tgbdc", k, v).cumsum(0)     # all that has come so far
    water = k.cumsum(0)
    top = torch.einsum("tgbd,tgbdc->tgbc", q, silt)
    bottom = torch.einsum("tgbd,tgbd->tgb", q, water)
    return top / (bottom + eps).unsqueeze(-1)


if __name__ == "__main__":
    T, G, B = 9, 2, 3
    print(tail_flow(torch.randn(T, G, B, 4), torch.randn(T, G, B, 4), torch.randn(T, G, B, 5)).shape)
