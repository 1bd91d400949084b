"""The bench: a model's service that plays a script, a load client, and the ways to answer side by side."""
