"""The race between draft and grade: the gate, the budget, the events. Start at answer.py."""
