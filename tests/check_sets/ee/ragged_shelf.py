"""Reading from a shelf (key/value cache) that is filled to a different height per customer.

read_shelf(q, k, v, filled)
    q       (B, Lq, Hq, d)    the newest Lq parcels of every customer
    k, v    (B, Lmax, Hk, d)  the shelf; slots 0 .. filled[b]-1 hold parcels in order of
                              arrival, the newest Lq are already on it; slots from
                              filled[b] on are empty (zeros)
    filled  (B,) long         Lq <= filled[b] <= Lmax
returns (B, Lq, Hq, d)

Row i of q is parcel number filled[b] - Lq + i and sees that parcel and all the earlier
ones.  Hq is a multiple of Hk; consecutive groups of Hq // Hk query heads share one head
of the shelf.  Logits are divided by sqrt(d).
"""
import torch
import torch.nn.functional as F


def who_sees_what(Lq, Lmax, filled):
    """(B, 1, Lq, Lmax) bool, True = visible"""
    slot = torch.arange(Lmax, device=filled.device)
    number = filled[:, None] - Lq + torch.arange(Lq, device=filled.device)    # (B, Lq)
    return (slot <= number[..., None]).unsqueeze(1)


def read_shelf(q, k, v, filled):
    see = who_sees_what(q.shape[1], k.shape[1], filled)
    out = F.scaled_dot_product_attention(
        q.movedim(2, 1), k.movedim(2, 1), v.movedim(2, 1),
        attn_mask=see, enable_gqa=True,
    )
    return out.movedim(1, 2)


if __name__ == "__main__":
    q = torch.randn(2, 3, 4, 8)
    k, v = torch.randn(2, 10, 2, 8), torch.randn(2, 10, 2, 8)
    print(read_shelf(q, k, v, torch.tensor([5, 10])).shape)
