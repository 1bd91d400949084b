"""Who may ask: API keys, the tenant each is bound to, and what it may do."""
