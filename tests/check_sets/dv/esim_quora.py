"""Soft alignment for the Quora duplicate model (ESIM style).

The two BiLSTM encodings are compared with a plain dot product (the paper has no temperature and
no projection here), each word of one question is then replaced by its mixture of the words of
the other one.
"""
import torch

NEG = float("-inf")


def soft_align(a, b, mask_a, mask_b):
    """
    a      : (B, La, D)   first question
    b      : (B, Lb, D)   second question
    mask_a : (B, La)      1 = word, 0 = padding
    mask_b : (B, Lb)      1 = word, 0 = padding   (each question has at least one word)

    returns a_hat (B, La, D), for each word of a the weighted sum of the words of b,
            b_hat (B, Lb, D), for each word of b the weighted sum of the words of a.
    Rows of padding words are zero.
    """
    e = torch.bmm(a, b.transpose(1, 2))                          # (B, La, Lb)

    w_ab = e.masked_fill(mask_b.unsqueeze(1) == 0, NEG).softmax(dim=2)
    w_ba = e.masked_fill(mask_a.unsqueeze(2) == 0, NEG).softmax(dim=1)

    a_hat = torch.bmm(w_ab, b) * mask_a.unsqueeze(2)
    b_hat = torch.bmm(w_ba.transpose(1, 2), a) * mask_b.unsqueeze(2)
    return a_hat, b_hat


def enhance(x, x_hat):
    """concat [x, x_hat, x - x_hat, x * x_hat] on the last axis"""
    return torch.cat((x, x_hat, x - x_hat, x * x_hat), dim=-1)


def compare(a, b, mask_a, mask_b):
    """Full local inference step: (B, La, 4D), (B, Lb, 4D)."""
    a_hat, b_hat = soft_align(a, b, mask_a, mask_b)
    return enhance(a, a_hat), enhance(b, b_hat)
