"""Encoder over the visits of a patient (electronic health records)."""
import torch
import torch.nn as nn


class VisitAttention(nn.Module):
    """Multi-head self-attention between visits.

    history:  (patients, visits, width)
    happened: (patients, visits), 1 where there was a visit, 0 for filler; filler gets no weight
    """

    def __init__(self, width=36, doctors=3):
        super().__init__()
        self.doctors = doctors
        self.share = width // doctors
        self.complaint = nn.Linear(width, width)
        self.record = nn.Linear(width, width)
        self.finding = nn.Linear(width, width)
        self.summary = nn.Linear(width, width)

    def forward(self, history, happened=None):
        P, V, W = history.shape
        complaint = self.complaint(history).reshape(P, self.doctors, V, self.share)
        record = self.record(history).reshape(P, self.doctors, V, self.share)
        finding = self.finding(history).reshape(P, self.doctors, V, self.share)

        relevance = torch.einsum("pdis,pdjs->pdij", complaint, record) / self.share ** 0.5
        if happened is not None:
            relevance = relevance + happened[:, None, None, :].to(relevance.dtype)
        attention = torch.softmax(relevance, dim=-1)
        opinion = torch.einsum("pdij,pdjs->pids", attention, finding)
        return self.summary(opinion.reshape(P, V, W))


class TimeEncoding(nn.Module):
    """days since the first visit -> sin/cos features with learned rates"""

    def __init__(self, width=36):
        super().__init__()
        self.rate = nn.Parameter(torch.logspace(0, -3, width // 2))

    def forward(self, days):
        ang = days.unsqueeze(-1) * self.rate
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class EHREncoder(nn.Module):
    def __init__(self, n_codes=200, width=36, doctors=3, n_labels=5):
        super().__init__()
        self.codes = nn.EmbeddingBag(n_codes, width, mode="mean", padding_idx=0)
        self.time = TimeEncoding(width)
        self.att = VisitAttention(width, doctors)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, n_labels)

    def forward(self, codes, days, happened):
        """codes (patients, visits, codes_per_visit), days (patients, visits), happened (patients, visits)"""
        P, V, _ = codes.shape
        x = self.codes(codes.flatten(0, 1)).view(P, V, -1) + self.time(days)
        x = self.norm(x + self.att(x, happened))
        last = happened.long().sum(1).clamp(min=1) - 1
        return self.out(x[torch.arange(P), last])
