"""Image-text retrieval by stacked cross attention (Lee et al., ECCV 2018), text-to-image side.

v3: no more loops over captions, mean instead of LogSumExp at the end.
"""
import torch
import torch.nn.functional as F


def l2norm(x, dim):
    return x / x.norm(dim=dim, keepdim=True).clamp_min(1e-8)


def t2i_similarity(regions, words, n_words, lam=9.0):
    """Similarity of every picture with every caption.

    regions  (I, R, D)     R detected regions per picture, all real
    words    (C, L, D)     word features, right-padded
    n_words  (C,) int64    real words of a caption, 1 .. L
    lam                    inverse temperature of the softmax
    returns  (I, C)

    1. s_rl = relu-leaky(cos(region r, word l), slope 0.1), then divided by its L2 norm
       over the real words l of the caption (per region);
    2. for each word l: weights over the regions, softmax_r(lam * s_rl), and the
       attended picture vector a_l = sum_r w_rl region_r;
    3. the score is the mean over the real words of cos(word l, a_l).
    """
    R_, W_ = l2norm(regions, -1), l2norm(words, -1)
    real = torch.arange(words.size(1), device=words.device) < n_words[:, None]      # C, L
    s = torch.einsum("ird,cld->icrl", R_, W_)
    s = F.leaky_relu(s, 0.1) * real[None, :, None, :]
    s = l2norm(s, -1)
    w = torch.softmax(lam * s, dim=2)                 # axis 2 are the regions
    att = torch.einsum("icrl,ird->icld", w, regions)
    cos = (l2norm(att, -1) * W_[None]).sum(-1)        # I, C, L
    return (cos * real).sum(-1) / n_words
