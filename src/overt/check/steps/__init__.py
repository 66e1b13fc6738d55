"""A recording judged: the steps from queries and keys to the output, the mistakes of each, and the whole."""
