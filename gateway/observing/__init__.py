"""What is seen of a request: spans, metrics, log lines, and the words that they are made of."""
