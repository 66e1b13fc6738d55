"""Training of the encoder–decoders: recipes, tasks and data need no torch, the loop does."""
