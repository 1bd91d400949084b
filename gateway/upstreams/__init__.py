"""Upstreams: who is asked over the network, and who of them is left alone for a while."""
