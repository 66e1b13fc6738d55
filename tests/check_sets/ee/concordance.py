"""Concordance lines of a corpus: a keyword in context looks up similar uses.

concordance(kwic, uses, glosses, attested)
    kwic      (B, H, W, d)   W keywords (queries), H heads
    uses      (B, H, U, d)   U uses in the corpus (keys)
    glosses   (B, H, U, c)   their glosses (values)
    attested  (B, U) int     1 = the use is attested, 0 = reconstructed by an editor.
                             Reconstructed uses must not count. At least one is attested.
returns (B, H, W, c): the mean gloss, weighted by softmax(kwic . use / sqrt(d)) over the
attested uses only.
"""
import torch
import torch.nn.functional as F


def normalise(x):
    return x / x.shape[-1] ** 0.5


def concordance(kwic, uses, glosses, attested):
    kwic = normalise(kwic)
    count = attested[:, None, None, :].to(kwic.dtype)
    return F.scaled_dot_product_attention(kwic, uses, glosses, attn_mask=count)


if __name__ == "__main__":
    B, H, W, U, d = 2, 3, 4, 9, 8
    seen = (torch.rand(B, U) < 0.7).long()
    seen[:, 0] = 1
    out = concordance(
        torch.randn(B, H, W, d), torch.randn(B, H, U, d), torch.randn(B, H, U, 5), seen
    )
    print(out.shape)
