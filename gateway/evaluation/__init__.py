"""`gateway eval`: labelled files in, figures out."""
