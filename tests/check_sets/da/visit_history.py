import torch
import torch.nn.functional as F
from torch import nn


class VisitReader(nn.Module):
    """For every open question, a weighted mean over a patient's visits.

    questions (B, T, dq), visits (B, S, dv) -> (B, T, d)
    """

    def __init__(self, dq=10, dv=14, d=12):
        super().__init__()
        self.ask = nn.Linear(dq, d)
        self.tag = nn.Linear(dv, d)
        self.note = nn.Linear(dv, d)

    def forward(self, questions, visits):
        a, b, c = self.ask(questions), self.tag(visits), self.note(visits)
        rel = torch.bmm(a, b.transpose(1, 2)) / a.size(-1) ** 0.5
        w = F.softmax(rel, dim=1)
        return torch.bmm(w, c)
