import torch
import torch.nn as nn


class IPAttnProcessor(nn.Module):
    """Cross-attention to the text with decoupled cross-attention to image tokens: out = attn(q, K_text, V_text) + scale * attn(q, K_ip, V_ip).

    hidden_states (B, L, dim); encoder_hidden_states (B, T + num_tokens, cross_dim), the image tokens last.
    """

    def __init__(self, dim=16, cross_dim=12, heads=2, scale=0.7, num_tokens=3):
        super().__init__()
        self.heads, self.scale, self.num_tokens = heads, scale, num_tokens
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(cross_dim, dim, bias=False)
        self.to_v = nn.Linear(cross_dim, dim, bias=False)
        self.to_k_ip = nn.Linear(cross_dim, dim, bias=False)
        self.to_v_ip = nn.Linear(cross_dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def head_to_batch_dim(self, t):
        b, s, d = t.shape
        return t.reshape(b, s, self.heads, d // self.heads).permute(0, 2, 1, 3).reshape(b * self.heads, s, d // self.heads)

    def batch_to_head_dim(self, t):
        b, s, d = t.shape
        return t.reshape(b // self.heads, self.heads, s, d).permute(0, 2, 1, 3).reshape(b // self.heads, s, d * self.heads)

    def get_attention_scores(self, q, k):
        empty = torch.empty(q.shape[0], q.shape[1], k.shape[1], dtype=q.dtype)
        return torch.baddbmm(empty, q, k.transpose(-1, -2), beta=0, alpha=q.shape[-1] ** -0.5).softmax(dim=-1)

    def forward(self, hidden_states, encoder_hidden_states):
        end = encoder_hidden_states.shape[1] - self.num_tokens
        text, image = encoder_hidden_states[:, :end], encoder_hidden_states[:, end:]
        q = self.head_to_batch_dim(self.to_q(hidden_states))
        k, v = self.head_to_batch_dim(self.to_k(text)), self.head_to_batch_dim(self.to_v(text))
        out = self.batch_to_head_dim(torch.bmm(self.get_attention_scores(q, k), v))
        ip_k, ip_v = self.head_to_batch_dim(self.to_k_ip(image)), self.head_to_batch_dim(self.to_v_ip(image))
        ip_out = self.batch_to_head_dim(torch.bmm(self.get_attention_scores(q, ip_k), ip_v))
        return self.to_out(out + self.scale * ip_out) + hidden_states
