"""Question + passages -> grade; grade -> next query."""
