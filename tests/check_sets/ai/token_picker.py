"""Next-token selection for the completion API."""
from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Optional[dict] = None
    banned: Optional[List[int]] = None
    seed: Optional[int] = None


class TokenPicker:
    """logits [batch, vocab] -> token ids [batch]. temperature 0 is greedy."""

    def __init__(self, params: SamplingParams, vocab_size: int):
        if params.temperature < 0:
            raise ValueError("temperature must not be negative")
        if not 0 < params.top_p <= 1:
            raise ValueError("top_p must be in (0, 1]")
        self.p = params
        self.vocab_size = vocab_size
        self.gen = torch.Generator()
        if params.seed is not None:
            self.gen.manual_seed(params.seed)
        self.keep_mask = torch.ones(vocab_size, dtype=torch.bool)
        if params.banned:
            self.keep_mask[torch.tensor(params.banned)] = False

    def _penalise(self, logits, history):
        if self.p.repetition_penalty == 1.0 or history is None:
            return logits
        seen = logits.gather(1, history)
        seen = torch.where(seen > 0, seen / self.p.repetition_penalty, seen * self.p.repetition_penalty)
        return logits.scatter(1, history, seen)

    def _bias(self, logits):
        if not self.p.logit_bias:
            return logits
        add = torch.zeros(self.vocab_size)
        for tok, value in self.p.logit_bias.items():
            add[int(tok)] = value
        return logits + add

    def _top_k(self, logits):
        k = min(self.p.top_k, logits.size(-1))
        if k <= 0:
            return logits
        kth = torch.topk(logits, k, dim=-1).values[:, -1:]
        return logits.masked_fill(logits < kth, float("-inf"))

    def _top_p(self, logits):
        if self.p.top_p >= 1.0:
            return logits
        ordered, idx = torch.sort(logits, dim=-1, descending=True)
        probs = torch.softmax(ordered, dim=-1)
        before = probs.cumsum(dim=-1) - probs
        drop = before >= self.p.top_p
        drop = torch.zeros_like(drop).scatter(1, idx, drop)
        return logits.masked_fill(drop, float("-inf"))

    def _min_p(self, logits):
        if self.p.min_p <= 0:
            return logits
        probs = torch.softmax(logits, dim=-1)
        return logits.masked_fill(probs < self.p.min_p * probs.amax(dim=-1, keepdim=True), float("-inf"))

    def __call__(self, logits, history=None):
        logits = self._bias(self._penalise(logits.float(), history))
        logits = logits.masked_fill(~self.keep_mask, float("-inf"))
        if self.p.temperature == 0:
            return logits.argmax(dim=-1)
        logits = logits / self.p.temperature
        logits = self._min_p(self._top_p(self._top_k(logits)))
        weights = torch.softmax(logits, dim=-1)
        return torch.multinomial(weights, 1, generator=self.gen).squeeze(-1)


def stop_reason(tokens: List[int], eos: int, stop_seqs: List[List[int]], max_tokens: int) -> Optional[str]:
    if tokens and tokens[-1] == eos:
        return "eos"
    for s in stop_seqs:
        if s and tokens[-len(s):] == s:
            return "stop"
    if len(tokens) >= max_tokens:
        return "length"
    return None
