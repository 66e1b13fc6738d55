"""Parts of attention by themselves, against their definitions."""
