"""Documents -> passages -> ranked passages."""
