"""Answers that outlive their clients: kept, told again from where a client stopped, shared between gateways."""
