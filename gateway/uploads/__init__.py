"""Documents over HTTP: taken in, listed, read, removed."""
