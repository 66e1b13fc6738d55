"""Drug-target interaction: atoms of the drug read the residues of the protein.

CrossAttention(dim, n_heads)(atoms, residues, residue_mask)
    atoms         [B, A, dim]
    residues      [B, R, dim]
    residue_mask  [B, R]  1 = residue, 0 = padding; padding must not be read
returns (out [B, A, dim], weights [B, n_heads, A, R])
Standard multi-head attention: each head works with dim / n_heads numbers and divides
its scores by the square root of that width.

DTI(...)(atoms, residues, atom_mask, residue_mask) -> affinity [B]
"""
import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.hidden = dim
        self.w_q = nn.Linear(dim, dim)
        self.w_k = nn.Linear(dim, dim)
        self.w_v = nn.Linear(dim, dim)
        self.fc = nn.Linear(dim, dim)
        self.register_buffer("scale", torch.sqrt(torch.FloatTensor([self.hidden])))

    def forward(self, atoms, residues, residue_mask):
        B = atoms.shape[0]
        Q = self.w_q(atoms).view(B, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = self.w_k(residues).view(B, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = self.w_v(residues).view(B, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        energy = energy * residue_mask[:, None, None, :].to(energy.dtype)
        weights = torch.softmax(energy, dim=-1)
        x = torch.matmul(weights, V).permute(0, 2, 1, 3).contiguous()
        return self.fc(x.view(B, -1, self.n_heads * self.head_dim)), weights


class DTI(nn.Module):
    def __init__(self, n_atom_feat=16, n_aa=21, dim=32, n_heads=4):
        super().__init__()
        self.atom = nn.Linear(n_atom_feat, dim)
        self.aa = nn.Embedding(n_aa, dim)
        self.conv = nn.Conv1d(dim, dim, 5, padding=2)
        self.cross = CrossAttention(dim, n_heads)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, atoms, residues, atom_mask, residue_mask):
        a = self.atom(atoms)
        r = torch.relu(self.conv(self.aa(residues).transpose(1, 2))).transpose(1, 2)
        y, _ = self.cross(a, r, residue_mask)
        m = atom_mask.unsqueeze(-1).to(y.dtype)
        return self.out(((a + y) * m).sum(1) / m.sum(1)).squeeze(-1)
