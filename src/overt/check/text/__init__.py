"""What names, documentation and code say of a candidate, read without running it."""
