import torch
import torch.nn as nn
import torch.nn.functional as F


class CouponCross(nn.Module):
    """Coupons (B, T, D) read the cart (B, S, D); cart_ok (B, S) bool, True = real line,
    at least one per cart. `noise` is the rate of weight dropout in training."""

    def __init__(self, D=16, heads=2, noise=0.2):
        super().__init__()
        self.heads, self.noise = heads, noise
        self.lin_c = nn.Linear(D, D)
        self.lin_b = nn.Linear(D, 2 * D)
        self.lin_o = nn.Linear(D, D)

    def _fold(self, x):
        return x.reshape(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, coupons, cart, cart_ok):
        k, v = self.lin_b(cart).chunk(2, dim=-1)
        y = F.scaled_dot_product_attention(
            self._fold(self.lin_c(coupons)), self._fold(k), self._fold(v),
            attn_mask=cart_ok[:, None, None, :],
            dropout_p=self.noise,
        )
        return coupons + self.lin_o(y.transpose(1, 2).flatten(2))
