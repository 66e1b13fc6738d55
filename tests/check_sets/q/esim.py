import torch
import torch.nn as nn


def masked_softmax(tensor, mask):
    """Softmax over the last dimension of tensor (B, m, n), with mask (B, n)."""
    mask = mask.unsqueeze(1).expand_as(tensor).to(tensor.dtype)
    result = torch.softmax(tensor.masked_fill(mask == 0, -1e30), dim=-1)
    result = result * mask
    return result / (result.sum(dim=-1, keepdim=True) + 1e-13)


class SoftmaxAttention(nn.Module):
    """Soft alignment of premise and hypothesis (Chen et al. 2017), the similarities being plain inner products.

    premise_batch (B, m, d), premise_mask (B, m), hypothesis_batch (B, n, d), hypothesis_mask (B, n); masks are 1 for words.
    Returns what each word of the premise sees of the hypothesis (B, m, d), and the other way round (B, n, d); padding is zero.
    """

    def forward(self, premise_batch, premise_mask, hypothesis_batch, hypothesis_mask):
        similarity_matrix = premise_batch.bmm(hypothesis_batch.transpose(2, 1).contiguous())
        prem_hyp_attn = masked_softmax(similarity_matrix, hypothesis_mask)
        hyp_prem_attn = masked_softmax(similarity_matrix.transpose(1, 2).contiguous(), premise_mask)
        attended_premises = prem_hyp_attn.bmm(hypothesis_batch) * premise_mask.unsqueeze(-1)
        attended_hypotheses = hyp_prem_attn.bmm(premise_batch) * hypothesis_mask.unsqueeze(-1)
        return attended_premises, attended_hypotheses
