"""The process in which the candidate is loaded, made and called, and what passes between it and the checker."""
