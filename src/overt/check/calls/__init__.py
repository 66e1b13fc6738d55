"""A call that works, found by trying: what each argument may be, how long, and in which order that is tried."""
